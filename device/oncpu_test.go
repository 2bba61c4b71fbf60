package device_test

import (
	"encoding/binary"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"weft/device"
)

// wrong has kernels of oncpu/testdata, which 64 threads run on the second half of 512 bytes, and what is
// said when the process ends.
var wrong = []struct{ kernel, line string }{
	{"right", ""},
	{"race", "kernels.cu:23, block 0, thread 0: reads shared memory that nobody wrote"},
	{"race_in_warp", "kernels.cu:30, block 0, thread 58: a race: it writes what thread 59 reads"},
	{"two_write", "kernels.cu:34, block 0, thread 1: a race: it writes what thread 0 writes"},
	{"two_read_one_writes", "kernels.cu:44, block 0, thread 31: a race: it writes what thread 63 reads"},
	{"lanes_read_one_writes", "kernels.cu:89, block 0, thread 31: a race: it writes what thread 0 reads"},
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
	{"takes_no_part", "kernels.cu:73, block 0, thread 0: reads lane 16, which takes no part"},
	{"not_in_mask", "kernels.cu:74, block 0, thread 16: the mask 0000ffff leaves out the lane itself"},
	{"past_the_end", "kernels.cu:75, block 0, thread 63: " +
		"address … is 0 bytes past the end of an allocation of 512"},
	{"before_the_beginning", "kernels.cu:76, block 0, thread 0: " +
		"address … is 4144 bytes before an allocation of 512"},
	{"not_aligned", "kernels.cu:91, block 0, thread 1: " +
		"address … is no multiple of the size of what it loads or stores there"},
	{"wild", "kernels.cu:77, block 0, thread 0: address … is no memory of the device"},
}

// A process that runs a kernel of oncpu/testdata ends with a line where the kernel is wrong.
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
			var said strings.Builder
			run.Stderr = &said
			err := run.Run()
			want := ""
			if w.line != "" {
				want = "libcuda-on-cpu: " + w.kernel + " at " + w.line + "\n"
			}
			if got := regexp.MustCompile("0x[0-9a-f]+").ReplaceAllString(said.String(), "…"); got != want {
				t.Errorf("%v\n%s\nnot\n%s", err, got, want)
			}
			if status := run.ProcessState.ExitCode(); want != "" && status != 134 {
				t.Errorf("status %d", status)
			}
		})
	}
}

// Threads run in the order that ON_CPU_ORDER says.
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
