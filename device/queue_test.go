package device_test

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"unsafe"

	"weft/device"
	"weft/internal/assert"
	"weft/internal/require"
	"weft/tensor"
)

// fill launches a kernel in so many blocks of threads.
func fill(d *device.Device, blocks, threads int, args fillArgs) error {
	return d.Launch("fill_float32", blocks, threads, unsafe.Pointer(&args), int(unsafe.Sizeof(args)))
}

// fills launches kernels that write values to the first words at p, each to fewer words than the one before,
// so that the result shows their order. It returns the words that should be there.
func fills(d *device.Device, p uint64, values ...uint32) (want []byte, err error) {
	const words, less = 64, 2
	want = make([]byte, 4*words)
	for k, v := range values {
		last := words - less*k
		for i := range last {
			binary.LittleEndian.PutUint32(want[4*i:], v)
		}
		err = cmp.Or(err, fill(d, 1, words, fillArgs{p: p, bits: v, last: int64(last)}))
	}
	return want, err
}

// TestGraphs: a list of kernels that comes again is launched as a graph, in its order, with its new
// arguments.
func TestGraphs(t *testing.T) {
	t.Setenv("WEFT_CUDA", library(t))
	d, err := device.Open(0)
	require.NoError(t, err)
	p, err := d.Alloc(512)
	require.NoError(t, err)
	before := tensor.Graphs{}
	for _, c := range []struct {
		why     string
		values  []uint32
		kernels int // kernels in a graph
		changed int
	}{
		{"a new list", []uint32{1, 2, 3, 4, 5}, 0, 0},
		{"it comes again", []uint32{1, 2, 3, 4, 5}, 5, 0},
		{"with another argument", []uint32{1, 2, 9, 4, 5}, 5, 1},
		{"which stays", []uint32{1, 2, 9, 4, 5}, 5, 0},
		{"with others all", []uint32{6, 7, 8, 9, 10}, 5, 5},
		{"a longer list", []uint32{1, 2, 3, 4, 5, 6}, 0, 0},
		{"more than half of whose arguments change", []uint32{7, 8, 9, 10, 5, 6}, 0, 0},
		{"of which half change, since", []uint32{1, 2, 3, 10, 5, 6}, 6, 3},
		{"a short list", []uint32{1, 2, 3}, 0, 0},
		{"is no graph", []uint32{1, 2, 3}, 0, 0},
		{"the first one", []uint32{6, 7, 8, 9, 10}, 5, 0},
	} {
		want, err := fills(d, p, c.values...)
		assert.NoError(t, err, c.why)
		got := make([]byte, len(want))
		assert.NoError(t, d.ToHost(got, p), c.why)
		assert.Equal(t, want, got, c.why)
		now := d.Graphs()
		assert.Equal(t, tensor.Graphs{
			Launches: min(1, c.kernels), Kernels: c.kernels, Changed: c.changed,
		}, now.Plus(before, -1), c.why)
		before = now
	}
	assert.NoError(t, d.Close())
}

// TestGraphsInFlight: a graph that has not run yet keeps its arguments when the next one is launched. A copy
// comes after it. A list of many kernels becomes several lists.
func TestGraphsInFlight(t *testing.T) {
	t.Setenv("WEFT_CUDA", library(t))
	d, err := device.Open(0)
	require.NoError(t, err)
	const lists = 4
	p, err := d.Alloc(256 * (1 + lists))
	require.NoError(t, err)
	var want []byte
	for k := range uint32(lists) {
		filled, err := fills(d, p, 100, k, 102, k, 104, 105)
		assert.NoError(t, err)
		assert.NoError(t, d.Copy(p+256*uint64(k+1), p, 256))
		want = append(want, filled...)
	}
	got := make([]byte, 256*lists)
	assert.NoError(t, d.ToHost(got, p+256))
	assert.Equal(t, want, got)
	const again = lists - 1
	assert.Equal(t, tensor.Graphs{Launches: again, Kernels: 6 * again, Changed: 2 * again}, d.Graphs())

	before, many := d.Graphs(), make([]uint32, 32)
	for round := range 3 {
		_, err := fills(d, p, many...) // fills a list
		assert.NoError(t, err)
		_, err = fills(d, p, many[:3]...) // begins another
		assert.NoError(t, err)
		// so many threads: launched by itself
		assert.NoError(t, fill(d, 1<<10+1, 256, fillArgs{p: p, bits: 9, last: 64}))
		_, err = fills(d, p, many[:3]...)
		assert.NoError(t, err)
		// fewer threads: the fourth kernel of the list
		assert.NoError(t, fill(d, 1<<10, 256, fillArgs{p: p, bits: 9, last: 64}))
		assert.NoError(t, d.Sync())
		assert.Equal(t, tensor.Graphs{Launches: 2 * round, Kernels: 36 * round}, d.Graphs().Plus(before, -1))
	}
	assert.NoError(t, d.Close())
}

// TestForgottenLists: of too many lists, those that were launched longest ago are forgotten, when their
// graphs have run.
func TestForgottenLists(t *testing.T) {
	t.Setenv("WEFT_CUDA", library(t))
	d, err := device.Open(0)
	require.NoError(t, err)
	p, err := d.Alloc(512)
	require.NoError(t, err)
	launch := func(blocks int) {
		for range 4 {
			assert.NoError(t, fill(d, blocks, 1, fillArgs{p: p, last: 1}))
		}
		_, err := d.Mark() // ends the list, and waits for nothing
		assert.NoError(t, err)
	}
	for range 2 {
		launch(1)
	}
	launch(2)
	launch(2) // stays known
	for k := range 511 {
		launch(3 + k)
		if k == 300 {
			launch(2)
		}
	}
	assert.Equal(t, 3, d.Graphs().Launches)
	launch(2)
	assert.Equal(t, 4, d.Graphs().Launches)
	launch(3) // stays known, too: of 513 lists one was forgotten
	assert.Equal(t, 5, d.Graphs().Launches)
	launch(1)
	assert.Equal(t, 5, d.Graphs().Launches)
	launch(1)
	assert.Equal(t, 6, d.Graphs().Launches)
	assert.NoError(t, d.Close())
}

// TestElapsedAlone: the kernels that Elapsed times are launched one by one between its timers. The kernels
// listed before are launched before the timers.
func TestElapsedAlone(t *testing.T) {
	t.Setenv("WEFT_CUDA", library(t))
	d, err := device.Open(0)
	require.NoError(t, err)
	p, err := d.Alloc(512)
	require.NoError(t, err)
	for range 3 {
		_, err := fills(d, p, 1, 2, 3) // with the first timed kernel they would make a graph
		assert.NoError(t, err)
		_, err = d.Elapsed(func() {
			_, err := fills(d, p, 4, 5, 6, 7, 8)
			assert.NoError(t, err)
		})
		assert.NoError(t, err)
	}
	assert.Equal(t, tensor.Graphs{}, d.Graphs())
	for range 2 {
		_, err := fills(d, p, 4, 5, 6, 7, 8)
		assert.NoError(t, err)
		assert.NoError(t, d.Sync())
	}
	assert.Equal(t, tensor.Graphs{Launches: 1, Kernels: 5}, d.Graphs())
	assert.NoError(t, d.Close())
}

// TestWithoutGraphs: if the driver has no graphs, or no memory for one, kernels are launched one by one. The
// failure of a graph is returned.
func TestWithoutGraphs(t *testing.T) {
	const invalid = "CUDA_ERROR_INVALID_VALUE: invalid argument"
	const late = "CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access was encountered"
	const last = " (launched last: fill_float32, fill_float32, fill_float32, fill_float32; " +
		"WEFT_DEVICE_SYNC=1 finds the kernel)"
	for _, c := range []struct {
		name, value string
		graphs      int // launched as graphs, of five equal lists
		message     string
	}{
		{"WEFT_DEVICE_GRAPHS", "", 4, ""},
		{"WEFT_DEVICE_GRAPHS", "0", 0, ""},
		{"WEFT_DEVICE_SYNC", "1", 0, ""},
		{"lacks", "cuGraphLaunch", 0, ""},
		{"lacks", "cuGraphCreate", 0, ""},
		{"ON_CPU_FAIL", "cuGraphCreate 1 2", 0, ""},
		{"ON_CPU_FAIL", "cuGraphAddKernelNode_v2 3 1", 0, ""},
		{"ON_CPU_FAIL", "cuGraphInstantiateWithFlags 1 2", 0, ""},
		{"ON_CPU_FAIL", "cuGraphExecKernelNodeSetParams_v2 1 801", 1, ""},
		{"ON_CPU_FAIL", "cuLaunchKernel 3 1", 4, "launching fill_float32: " + invalid +
			" (launched last: fill_float32, fill_float32; WEFT_DEVICE_SYNC=1 finds the kernel)"},
		{"ON_CPU_FAIL", "cuGraphLaunch 1 2", 0, ""},
		{"ON_CPU_FAIL", "cuGraphLaunch 2 2", 1, ""},
		{"ON_CPU_FAIL", "cuGraphLaunch 1 700", 1, "copying from the card: " + late + last},
		{"ON_CPU_FAIL", "cuGraphLaunch 1 1", 4, "launching a graph of kernels: " + invalid + last},
		{"ON_CPU_FAIL", "cuGraphExecDestroy 1 1", 4, "giving a graph of kernels back: " + invalid},
		{"ON_CPU_FAIL", "cuGraphDestroy 1 1", 4, "giving a graph of kernels back: " + invalid},
	} {
		t.Run(c.name+" "+c.value, func(t *testing.T) {
			t.Setenv("WEFT_CUDA", library(t))
			if c.name == "lacks" {
				t.Setenv("WEFT_CUDA", lacking(t, c.value))
			} else {
				t.Setenv(c.name, c.value)
			}
			d, err := device.Open(0)
			require.NoError(t, err)
			p, err := d.Alloc(512)
			require.NoError(t, err)
			var failed error
			for k := range uint32(5) {
				want, err := fills(d, p, 1, 2, 3, k, 5)
				got := make([]byte, len(want))
				if err = cmp.Or(err, d.ToHost(got, p)); err == nil {
					assert.Equal(t, want, got)
				}
				failed = cmp.Or(failed, err)
			}
			assert.Equal(t, c.graphs, d.Graphs().Launches)
			if failed = cmp.Or(failed, d.Close()); c.message == "" {
				assert.NoError(t, failed)
				return
			}
			assert.EqualError(t, failed, "cuda:0: "+c.message)
		})
	}
}

// lacking returns a libcuda in which no function has that name.
func lacking(t *testing.T, function string) string {
	content, err := os.ReadFile(os.Getenv("WEFT_CUDA"))
	require.NoError(t, err)
	name := append([]byte(function), 0)
	if !bytes.Contains(content, name) {
		t.Fatal(errors.New(function))
	}
	another := append(bytes.Repeat([]byte{'?'}, len(function)), 0)
	library := filepath.Join(t.TempDir(), fmt.Sprint("lacks-", function, ".so"))
	require.NoError(t, os.WriteFile(library, bytes.ReplaceAll(content, name, another), 0o755))
	return library
}
