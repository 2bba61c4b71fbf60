package memory

import (
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"weft/internal/assert"
	"weft/internal/refusal"
	"weft/internal/require"
)

// A slice without room is copied to one that has it, if there is the memory.
func TestGrow(t *testing.T) {
	s, err := Grow([]int64{1, 2}, 3)
	if err != nil || len(s) != 2 || cap(s) < 5 || s[1] != 2 {
		t.Errorf("%v with room for %d, %v", s, cap(s), err)
	}
	if again, err := Grow(s, cap(s)-2); err != nil || &again[0] != &s[0] {
		t.Errorf("grown with room left, %v", err)
	}
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(64 << 20))
	if s, err = Grow(s, 8<<20); !refusal.Is(err) ||
		!strings.Contains(err.Error(), "needs 67.1 MB") || len(s) != 2 {
		t.Errorf("%d elements, %v, want a refusal and what was there", len(s), err)
	}
}

// What is appended has the room that Grow and GrowTo make, or is refused.
func TestAppend(t *testing.T) {
	s, err := Append([]int64{1}, 2, 3)
	if err != nil || len(s) != 3 || s[2] != 3 {
		t.Errorf("%v, %v", s, err)
	}
	if s, err = AppendTo(s, []int64{4}, 100); err != nil || len(s) != 4 || cap(s) != 1+1024 {
		t.Errorf("%v with room for %d, %v", s, cap(s), err)
	}
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(64 << 20))
	if s, err = AppendTo(make([]int64, 1<<20), []int64{4}, 1<<24); !refusal.Is(err) || len(s) != 1<<20 {
		t.Errorf("%d elements, %v, want a refusal and what was there", len(s), err)
	}
}

// A claim is believed when an eighth of it is there.
func TestGrowTo(t *testing.T) {
	for _, c := range []struct {
		has, more int
		all       int64
		want      int // capacity
	}{
		{0, 10, 1000, 20},
		{50, 10, 1000, 120},
		{50, 13, 1000, 1000},
		{5, 5, 10, 10},
		{10, 1, 10, 10 + 1024},
		{10, 1, 0, 10 + 1024},
		{3, 0, 10, 3},
	} {
		s, err := GrowTo(make([]int64, c.has, max(c.has, 1)), c.more, c.all)
		if err != nil || len(s) != c.has || cap(s) != c.want {
			t.Errorf("%+v: %d elements with room for %d, %v", c, len(s), cap(s), err)
		}
	}
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(64 << 20))
	_, err := GrowTo(make([]int64, 1<<20), 1<<20, 16<<20)
	assert.Refused(t, err, "needs 134.2 MB")
}

// What is asked for is held against the limit less what is in use, and garbage does not count.
func TestNeed(t *testing.T) {
	assert.NoError(t, Need(1<<30), "without a limit")
	const limit, most, block = 256 << 20, 128 << 20, 64 << 20
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(limit))
	assert.NoError(t, Need(most), "half of the limit")
	assert.Refused(t, Need(limit), "needs 268.4 MB", "the whole limit")
	var blocks [][]byte
	for range 3 {
		blocks = append(blocks, make([]byte, block))
	}
	assert.Refused(t, Need(most), "", "beside three quarters of the limit")
	runtime.KeepAlive(blocks) // until here
	assert.NoError(t, Need(most), "beside garbage")
}

// What the limits of the process on its addresses do not leave is refused, whatever the runtime may take.
func TestNeedAddresses(t *testing.T) {
	var limit unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_AS, &limit))
	defer func() { assert.NoError(t, unix.Setrlimit(unix.RLIMIT_AS, &limit)) }()
	text, err := os.ReadFile("/proc/self/statm")
	require.NoError(t, err)
	pages, err := strconv.ParseUint(strings.Fields(string(text))[0], 10, 64)
	require.NoError(t, err)
	const left = 512 << 20
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_AS,
		&unix.Rlimit{Cur: pages*uint64(os.Getpagesize()) + left, Max: limit.Max}))
	assert.NoError(t, Need(left/4))
	assert.Refused(t, Need(2*left), "the limits of this process do not leave them")
}

// Garbage of a heap that the limit has little room beside goes back to the system, and a small one stays.
func TestFree(t *testing.T) {
	for _, c := range []struct {
		limit int64 // beside 64 MiB
		goes  bool
	}{{64 << 20, true}, {1 << 40, false}} {
		used := make([]byte, 64<<20)
		for i := range used {
			used[i] = 1
		}
		runtime.KeepAlive(used)
		before, _ := heap()
		defer debug.SetMemoryLimit(debug.SetMemoryLimit(before + c.limit))
		Free()
		if after, _ := heap(); (after < before-60<<20) != c.goes {
			t.Errorf("with a limit of %d bytes the heap has %d, and had %d", before+c.limit, after, before)
		}
	}
}
