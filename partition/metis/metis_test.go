package metis

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"weft/internal/assert"
	"weft/internal/require"
)

// grid is a side × side grid.
func grid(t *testing.T, side int, w Weights) *Problem {
	t.Helper()
	p, err := New(side*side, 4*side*(side-1), w)
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, p.Close())
	})
	at := int32(0)
	for v := range side * side {
		x, y := v%side, v/side
		for _, u := range [][2]int{{x - 1, y}, {x + 1, y}, {x, y - 1}, {x, y + 1}} {
			if u[0] >= 0 && u[0] < side && u[1] >= 0 && u[1] < side {
				p.Neighbours[at] = int32(u[1]*side + u[0])
				at++
			}
		}
		p.Indptr[v+1] = at
	}
	return p
}

// cut is the weight of the edges between partitions.
func cut(p *Problem, part []int32) int {
	weight := 0
	for v := range part {
		for k := p.Indptr[v]; k < p.Indptr[v+1]; k++ {
			if part[p.Neighbours[k]] == part[v] {
				continue
			}
			if p.EdgeWeights == nil {
				weight++
			} else {
				weight += int(p.EdgeWeights[k])
			}
		}
	}
	return weight / 2
}

func count(part []int32, parts int) []int {
	n := make([]int, parts)
	for _, q := range part {
		n[q]++
	}
	return n
}

func TestGrid(t *testing.T) {
	p := grid(t, 40, Weights{})
	part, err := p.Solve(context.Background(), 4, 1, time.Minute)
	require.NoError(t, err)
	// Four quadrants cut 80 edges and have 400 vertices each; METIS may leave partitions 3 % too large.
	if n := count(part, 4); slices.Max(n) > 412+1 || cut(p, part) > 120 {
		t.Errorf("cut %d, sizes %v", cut(p, part), n)
	}
	again, err := p.Solve(context.Background(), 4, 1, time.Minute)
	require.NoError(t, err)
	assert.Equal(t, again, part)
	other, err := p.Solve(context.Background(), 4, 2, time.Minute)
	if err != nil || slices.Equal(part, other) {
		t.Errorf("another seed gave the same partition (error %v)", err)
	}
}

// Heavy edges are not cut: here those between columns 2i and 2i+1 of the grid.
func TestEdgeWeights(t *testing.T) {
	const side = 20
	p := grid(t, side, Weights{Edges: true})
	heavy := func(u, v int32) bool { return u/side == v/side && u%side/2 == v%side/2 }
	for v := range int32(side * side) {
		for k := p.Indptr[v]; k < p.Indptr[v+1]; k++ {
			if p.EdgeWeights[k] = 1; heavy(v, p.Neighbours[k]) {
				p.EdgeWeights[k] = 1000
			}
		}
	}
	part, err := p.Solve(context.Background(), 5, 0, time.Minute)
	require.NoError(t, err)
	if c := cut(p, part); c >= 1000 {
		t.Errorf("cut %d", c)
	}
}

// One weight of each vertex is divided evenly instead of the vertices. Here a corner, a quarter of all
// vertices, weighs ten times as much, and would else stay together.
func TestVertexWeights(t *testing.T) {
	const side = 20
	p := grid(t, side, Weights{Vertex: 1})
	total := int32(0)
	for v := range p.VertexWeights {
		if p.VertexWeights[v] = 1; v%side < side/2 && v/side < side/2 {
			p.VertexWeights[v] = 10
		}
		total += p.VertexWeights[v]
	}
	part, err := p.Solve(context.Background(), 4, 0, time.Minute)
	require.NoError(t, err)
	weights := make([]int32, 4)
	for v, q := range part {
		weights[q] += p.VertexWeights[v]
	}
	if even := total / 4; slices.Max(weights) > even*103/100+10 {
		t.Errorf("weights %v; even are %d", weights, even)
	}
}

// A second weight is divided evenly too. Here it is a tenth of the vertices, in a corner, which the first
// weight would leave together.
func TestTwoVertexWeights(t *testing.T) {
	const side = 40
	p := grid(t, side, Weights{Vertex: 2})
	trains := func(v int) bool { return v/side < 13 && v%side < 13 }
	for v := range side * side {
		p.VertexWeights[2*v] = 1
		if trains(v) {
			p.VertexWeights[2*v+1] = 1
		}
	}
	part, err := p.Solve(context.Background(), 4, 0, time.Minute)
	require.NoError(t, err)
	second := make([]int, 4)
	for v, q := range part {
		if trains(v) {
			second[q]++
		}
	}
	if n := count(part, 4); slices.Max(n) > 450 || slices.Max(second) > 60 {
		t.Errorf("vertices %v, of the second weight %v; even are 400 and 42", n, second)
	}
}

func TestNoEdges(t *testing.T) {
	p, err := New(90, 0, Weights{})
	require.NoError(t, err)
	defer p.Close()
	part, err := p.Solve(context.Background(), 3, 0, time.Minute)
	if n := count(part, 3); err != nil || slices.Max(n) > 33 {
		t.Errorf("sizes %v, error %v", n, err)
	}
}

func TestRefuses(t *testing.T) {
	p := grid(t, 3, Weights{})
	for _, parts := range []int{-1, 0, 1, 10} {
		_, err := p.Solve(context.Background(), parts, 0, time.Minute)
		assert.Error(t, err, "%d partitions of 9 vertices were accepted", parts)
	}
	for _, counts := range [][3]int{
		{-1, 0, 0},
		{1, -1, 0},
		{1, 1, -1},
		{MaxEntries/2 + 1, 1, 2},
		{MaxEntries + 1, 1, 0},
		{1, MaxEntries + 1, 0},
	} {
		if _, err := New(counts[0], counts[1], Weights{Vertex: counts[2]}); err == nil ||
			!strings.HasPrefix(err.Error(), "METIS cannot hold ") {
			t.Errorf("%v: error %v", counts, err)
		}
	}
}

// A graph may have no vertices.
func TestNoVertices(t *testing.T) {
	p, err := New(0, 0, Weights{Edges: true, Vertex: 1})
	require.NoError(t, err)
	assert.NoError(t, p.Close())
}

// There may be as many partitions as vertices.
func TestMostPartitions(t *testing.T) {
	p := grid(t, 3, Weights{})
	part, err := p.Solve(context.Background(), 9, 0, time.Minute)
	if err != nil || len(part) != 9 || slices.Min(part) < 0 || slices.Max(part) > 8 {
		t.Errorf("partitions %v, error %v", part, err)
	}
}

// A closed problem leaves no memory mapped.
func TestClose(t *testing.T) {
	mapped := func() int {
		maps, err := os.ReadFile("/proc/self/maps")
		require.NoError(t, err)
		return strings.Count(string(maps), "/memfd:metis")
	}
	p, err := New(90, 0, Weights{})
	require.NoError(t, err)
	require.Equal(t, 1, mapped())
	if err := p.Close(); err != nil || mapped() != 0 {
		t.Errorf("%d mappings, error %v", mapped(), err)
	}
}

// TestFailure: an error has what METIS returned, or else how the process ended, and what it printed.
func TestFailure(t *testing.T) {
	const statusMemory, statusError = -3, -4 // METIS_ERROR_MEMORY, METIS_ERROR
	killed := errors.New("signal: killed")
	for _, c := range []struct {
		err    error
		status int32
		output string
		want   string
	}{
		{nil, statusMemory, "", "METIS failed: there is too little memory"},
		{killed, statusMemory, "", "METIS failed: there is too little memory"},
		{nil, statusError, "", "METIS failed: it returned an error"},
		{killed, statusError, "", "METIS failed: it returned an error"},
		{killed, 0, "Input\n  Error\n", "METIS failed: signal: killed (Input Error)"},
		{killed, 0, strings.Repeat("x", 1000), "METIS failed: signal: killed (" +
			strings.Repeat("x", 300) + ")"},
	} {
		assert.Equal(t, c.want, failure(c.err, c.status, c.output).Error(), "%+v", c)
	}
}

// METIS crashes on a graph with indices outside its arrays; this process must not.
func TestChildDies(t *testing.T) {
	p := grid(t, 40, Weights{})
	for k := range p.Neighbours {
		p.Neighbours[k] = 1 << 30
	}
	_, err := p.Solve(context.Background(), 4, 0, time.Minute)
	if err == nil || !strings.HasPrefix(err.Error(), "METIS failed: ") ||
		strings.Contains(err.Error(), "\n") {
		t.Errorf("error %v", err)
	}
}

// TestInputError: an error has what METIS printed.
func TestInputError(t *testing.T) {
	p := grid(t, 4, Weights{})
	p.shared.constraints = 0
	_, err := p.Solve(t.Context(), 2, 0, 0)
	assert.EqualError(t, err, "METIS failed: it returned an error (Input Error: Incorrect ncon.)")
}

// stopsItself makes the child a process that stops itself in the place of METIS.
func stopsItself(t *testing.T) {
	script, itself := filepath.Join(t.TempDir(), "script"), program
	require.NoError(t, os.WriteFile(script, []byte("#!/bin/sh\nkill -STOP $$\n"), 0o777))
	program = script
	t.Cleanup(func() { program = itself })
}

// awaitStopped returns once a child of this process is stopped, or the test is over.
func awaitStopped(t *testing.T) {
	for ; t.Context().Err() == nil; time.Sleep(time.Millisecond) {
		lists, err := filepath.Glob("/proc/self/task/*/children")
		assert.NoError(t, err)
		for _, list := range lists {
			text, _ := os.ReadFile(list) // a thread may have ended
			for _, child := range strings.Fields(string(text)) {
				pid, err := strconv.Atoi(child)
				if now, ended := activityOf(pid); err == nil && ended == nil && now.state == 'T' {
					return
				}
			}
		}
	}
}

// Without a timeout Solve waits for a stopped child until ctx ends.
func TestCancel(t *testing.T) {
	stopsItself(t)
	p := grid(t, 4, Weights{})
	stop := errors.New("stop")
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		awaitStopped(t)
		time.Sleep(100 * time.Millisecond) // a timeout of 0 would end it in this time
		cancel(stop)
	}()
	_, err := p.Solve(ctx, 2, 0, 0)
	assert.ErrorIs(t, err, stop)
}

// Solve does not wait for ever for a child that was stopped.
func TestStopped(t *testing.T) {
	stopsItself(t)
	p := grid(t, 4, Weights{})
	want := regexp.MustCompile(`^METIS failed: process \d+ is (stopped|waiting) .*did nothing for 200ms$`)
	for {
		_, err := p.Solve(t.Context(), 2, 0, 200*time.Millisecond)
		if err == nil || !want.MatchString(err.Error()) {
			t.Fatalf("error %v", err)
		}
		if strings.Contains(err.Error(), "is stopped and") {
			return
		}
		// It waited before it stopped, perhaps for the disk: try again.
	}
}

// A process that works is watched for as long as it does.
func TestWatchLeavesWork(t *testing.T) {
	worker := exec.Command("/bin/sh", "-c", "echo begun; while :; do :; done")
	stdout, err := worker.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, worker.Start())
	defer func() { _, _ = worker.Process.Kill(), worker.Wait() }()
	_, err = stdout.Read(make([]byte, 1))
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 150*time.Millisecond) // three times the timeout of watch
	defer cancel()
	assert.NoError(t, watch(ctx, worker.Process.Pid, 50*time.Millisecond))
}

// TestBusy: a process is busy while it uses a processor, or waits for one. The states are those of
// proc_pid_stat(5).
func TestBusy(t *testing.T) {
	last := activity{'S', "7 1"}
	for _, c := range []struct {
		now  activity
		want bool
	}{
		{activity{'R', "7 1"}, true},
		{activity{'S', "7 2"}, true},
		{activity{'R', "8 1"}, true},
		{activity{'S', "7 1"}, false},
		{activity{'D', "7 1"}, false},
		{activity{'T', "7 1"}, false},
	} {
		if c.now.busy(last) != c.want {
			t.Errorf("%c %s after %c %s: busy is %v", c.now.state, c.now.processor, last.state,
				last.processor, !c.want)
		}
	}
}

// TestNameAlone: the name and the variable without the memory end the program with an error. No other name
// does.
func TestNameAlone(t *testing.T) {
	for _, c := range []struct {
		args   []string
		output string
		status int
	}{
		{[]string{"weft-metis"}, "weft-metis: no graph came with this name\n", 1},
		{[]string{"weft-metis", "-test.run=^$"}, "PASS\n", 0},
		{[]string{"weft", "-test.run=^$"}, "PASS\n", 0},
	} {
		child := exec.Command("/proc/self/exe")
		child.Args, child.Env = c.args, append(os.Environ(), "WEFT_RUN_METIS=1")
		output, err := child.CombinedOutput()
		status := child.ProcessState.ExitCode()
		if status != c.status || !strings.HasSuffix(string(output), c.output) {
			t.Errorf("%q: status %d, %v: %s", c.args, status, err, output)
		}
	}
}
