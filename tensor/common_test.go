package tensor_test

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"weft/internal/assert"
	"weft/internal/require"
	"weft/tensor"
)

// protections are the protections with which this process maps memory that workers share.
func protections(t *testing.T) []string {
	t.Helper()
	mapped, err := os.ReadFile("/proc/self/maps")
	require.NoError(t, err)
	all := map[string]bool{}
	for line := range strings.Lines(string(mapped)) {
		if strings.Contains(line, "/memfd:weft") {
			all[strings.Fields(line)[1]] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// TestCommon: workers of a process have one copy of a matrix, and another process maps it read-only. The
// worker that writes is charged, as in a plan. The last worker that closes gives the memory back.
func TestCommon(t *testing.T) {
	made := tensor.NewCommon()
	second, err := tensor.OpenCommon(made.Path())
	require.NoError(t, err)
	// under another name, as for another process
	_, file, _ := strings.Cut(made.Path(), "/fd/")
	process, err := tensor.OpenCommon("/proc/self/fd/" + file)
	require.NoError(t, err)
	var meters []*tensor.Meter
	var all [][2]*tensor.Matrix
	for k, c := range []*tensor.Common{made, second, process, nil, nil} {
		mem := tensor.NewMeter()
		if c == nil {
			mem.Plan()
		}
		mem.Share(c, k != 0 && k != 3)
		meters = append(meters, mem)
		all = append(all, [2]*tensor.Matrix{
			mem.NewCommon(tensor.Graph, tensor.Int64, 1, page/8+1),
			mem.NewCommon(tensor.Features, tensor.Float32, 3, 5),
		})
		graph, features := int64(0), int64(0)
		if mem.Writes() {
			graph, features = 2*page, page
		}
		assert.Equal(t, graph, mem.GraphBytes(), "%d", k)
		assert.Equal(t, features, mem.Peak(), "%d", k)
	}
	all[0][0].Int64s()[page/8], all[0][1].Floats()[14] = 7, 2.5
	for k := range 3 {
		assert.Equal(t, 7, all[k][0].ReadInt64s()[page/8], "%d", k)
		assert.Equal(t, float32(2.5), all[k][1].ReadFloats()[14], "%d", k)
	}
	for k := range all {
		assert.Equal(t, k == 0, len(all[k][1].RowRange(0, 3).WriteFloats()) > 0, "%d", k)
		assert.Equal(t, k < 3, len(all[k][1].RowRange(0, 3).ReadFloats()) > 0, "%d", k)
	}
	if all[0][0].Pointer() != all[1][0].Pointer() || all[0][0].Pointer() == all[2][0].Pointer() {
		t.Error("a process maps a matrix twice, or not at all")
	}
	assert.Equal(t, "r--s rw-s", strings.Join(protections(t), " "))
	all[0][0].Release()
	meters[0].Close()
	meters[2].Close()
	assert.Equal(t, 7, all[1][0].Int64s()[page/8], "the worker that wrote has ended")
	for _, k := range []int{1, 3, 4} {
		meters[k].Close()
	}
	assert.Len(t, protections(t), 0)
}

// TestCommonWithoutFile: if the system refuses a file in memory, workers of this process still share the
// memory, and no path leads other processes to it.
func TestCommonWithoutFile(t *testing.T) {
	var limit unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Max: limit.Max}))
	made := tensor.NewCommon()
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &limit))
	second, err := tensor.OpenCommon(made.Path())
	require.NoError(t, err)
	var all [2][2]*tensor.Matrix
	for k, c := range []*tensor.Common{made, second} {
		mem := tensor.NewMeter()
		defer mem.Close()
		mem.Share(c, k > 0)
		for i := range all[k] {
			all[k][i] = mem.NewCommon(tensor.Graph, tensor.Int64, 1, page/8+1)
		}
	}
	assert.Len(t, protections(t), 0)
	all[0][0].Int64s()[page/8], all[0][1].Int64s()[0] = 7, 8
	assert.Equal(t, 7, all[1][0].Int64s()[page/8])
	assert.Equal(t, 8, all[1][1].Int64s()[0])
	_, err = os.Stat(made.Path())
	assert.ErrorIs(t, err, os.ErrNotExist)
}

// TestCommonOfAnEndedWorker: a path that leads to another file is refused.
func TestCommonOfAnEndedWorker(t *testing.T) {
	f, err := os.Open("/dev/null")
	require.NoError(t, err)
	defer f.Close()
	for _, path := range []string{fmt.Sprintf("/proc/self/fd/%d", f.Fd()), "/proc/self/fd/none"} {
		_, err = tensor.OpenCommon(path)
		assert.ErrorContains(t, err, "memory of another worker of this machine: ")
	}
}
