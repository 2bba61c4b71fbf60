package device_test

import (
	"encoding/binary"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"weft/device"
	"weft/internal/assert"
)

// wrong has kernels of oncpu/testdata, each with the last line of the process. 64 threads run them on the
// second half of 512 bytes.
var wrong = []struct{ kernel, line string }{
	{"right", ""},
	{"race", "kernels.cu:23, block 0, thread 0: reads shared memory that nobody wrote"},
	{"race_in_warp", "kernels.cu:30, block 0, thread 58: a race: it writes what thread 59 reads"},
	{"two_write", "kernels.cu:34, block 0, thread 1: a race: it writes what thread 0 writes"},
	{"two_read_one_writes", "kernels.cu:44, block 0, thread 31: a race: it writes what thread 63 reads"},
	{"lanes_read_one_writes", "kernels.cu:91, block 0, thread 31: a race: it writes what thread 0 reads"},
	{"nobody_wrote", "kernels.cu:48, block 0, thread 0: reads shared memory that nobody wrote"},
	{"left_before_barrier", "kernels.cu:53, block 0, thread 0: a barrier that 40 of 64 threads reach"},
	{"two_barriers", "kernels.cu:59, block 0, thread 32: " +
		"others of the block are at another barrier, kernels.cu:57"},
	{"two_shuffles", "kernels.cu:65, block 0, thread 16: mask ffffffff: " +
		"lane 0 of the warp is at kernels.cu:63 with mask ffffffff"},
	{"two_masks", "kernels.cu:67, block 0, thread 1: mask ffffffff: " +
		"lane 0 of the warp is at kernels.cu:67 with mask 7fffffff"},
	{"left_before_shuffle", "kernels.cu:71, block 0, thread 0: " +
		"waits for lanes ffe00000 of its warp, which have ended or wait elsewhere"},
	{"takes_no_part", "kernels.cu:74, block 0, thread 0: reads lane 16, which takes no part"},
	{"not_in_mask", "kernels.cu:76, block 0, thread 16: the mask 0000ffff leaves out the lane itself"},
	{"past_the_end", "kernels.cu:77, block 0, thread 63: " +
		"address … is 0 bytes past the end of an allocation of 512"},
	{"before_the_beginning", "kernels.cu:78, block 0, thread 0: " +
		"address … is 4144 bytes before an allocation of 512"},
	{"not_aligned", "kernels.cu:93, block 0, thread 1: " +
		"address … is no multiple of the size of what it loads or stores there"},
	{"part_of_a_matrix", "kernels.cu:112, block 0, thread 0: " +
		"waits for lanes ffff0000 of its warp, which have ended or wait elsewhere"},
	{"in_one_bank", "kernels.cu:187, block 0, thread 30: the rows of lanes 3 and 4 lie in the same banks"},
	{"not_awaited", "kernels.cu:135, block 0, thread 63: " +
		"reads what thread 62 copies, which has not waited for it"},
	{"group_not_ended", "kernels.cu:141, block 0, thread 0: " +
		"reads what thread 0 copies, which has not waited for it"},
	{"awaited_by_itself", "kernels.cu:149, block 0, thread 63: " +
		"reads what thread 31 copies, which has not waited for it"},
	{"copied_over_what_is_read", "kernels.cu:158, block 0, thread 0: a race: it writes what thread 32 reads"},
	{"written_while_copied", "kernels.cu:162, block 0, thread 31: copies to where thread 30 writes"},
	{"copied_twice", "kernels.cu:171, block 0, thread 1: copies to where thread 0 copies"},
	{"copied_from_anywhere", "kernels.cu:175, block 0, thread 1: " +
		"address …, which it copies, is no multiple of 16"},
	{"copied_past_the_end", "kernels.cu:179, block 0, thread 16: " +
		"address … is 0 bytes past the end of an allocation of 512"},
	{"wild", "kernels.cu:79, block 0, thread 0: address … is no memory of the device"},
}

// TestWrongKernels: a process that runs a wrong kernel of oncpu/testdata ends with a line that says what is
// wrong.
func TestWrongKernels(t *testing.T) {
	if kernel := os.Getenv("TEST_KERNEL"); kernel != "" {
		if _, err := launch(kernel); err != nil {
			t.Fatal(err)
		}
		return
	}
	library := library(t)
	for _, w := range wrong {
		t.Run(w.kernel, func(t *testing.T) {
			t.Parallel()
			run := exec.Command(os.Args[0], "-test.run=^TestWrongKernels$")
			run.Env = append(os.Environ(), "TEST_KERNEL="+w.kernel, "WEFT_CUDA="+library)
			var stderr strings.Builder
			run.Stderr = &stderr
			err := run.Run()
			want := ""
			if w.line != "" {
				want = "libcuda-on-cpu: " + w.kernel + " at " + w.line + "\n"
			}
			if got := regexp.MustCompile("0x[0-9a-f]+").ReplaceAllString(stderr.String(), "…"); got != want {
				t.Errorf("%v\n%s\nnot\n%s", err, got, want)
			}
			if status := run.ProcessState.ExitCode(); want != "" && status != 134 {
				t.Errorf("status %d", status)
			}
		})
	}
}

// TestOrder: threads run in the order of ON_CPU_ORDER.
func TestOrder(t *testing.T) {
	t.Setenv("WEFT_CUDA", library(t))
	last := map[string]uint32{"": 63, "forward": 63, "backward": 0, "drawn": 44, "drawn1": 37}
	for order, want := range last {
		t.Setenv("ON_CPU_ORDER", order)
		got, err := launch("last_writes")
		if err := device.CloseCards(); err != nil {
			t.Fatal(err)
		}
		if err != nil || binary.LittleEndian.Uint32(got) != want {
			t.Errorf("%s: thread %d wrote last, not %d, %v", order, binary.LittleEndian.Uint32(got), want, err)
		}
	}
}

// TestMatrices: each lane gets the parts of matrices that PTX's ldmatrix gives it. The bytes of cp.async, or
// zeros, are there when a thread has waited.
func TestMatrices(t *testing.T) {
	t.Setenv("WEFT_CUDA", library(t))
	for _, order := range []string{"forward", "backward", "drawn"} {
		t.Setenv("ON_CPU_ORDER", order)
		words := func(kernel string) []uint32 {
			got, err := launch(kernel)
			assert.NoError(t, err)
			assert.NoError(t, device.CloseCards())
			all := make([]uint32, 64)
			_, err = binary.Decode(got, binary.LittleEndian, all)
			assert.NoError(t, err)
			return all
		}
		matrices, copied := make([]uint32, 64), make([]uint32, 64)
		for i := range uint32(32) {
			row, column := i/4, i%4*2
			matrices[i] = (8+row)*8 + column | ((8+row)*8+column+1)<<16
			matrices[i+32] = (16+column)*8 + row | ((16+column+1)*8+row)<<16
		}
		for i := range copied {
			copied[i] = 0x01010101
			if (63-i)%2 == 1 {
				copied[i] = 0x02020202
			}
		}
		assert.Equal(t, matrices, words("matrices"))
		assert.Equal(t, copied, words("copied"))
	}
}
