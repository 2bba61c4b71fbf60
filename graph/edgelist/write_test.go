package edgelist

import (
	"bufio"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"weft/graph"
	"weft/graph/streamed"
	"weft/graph/streamed/streamedtest"
	"weft/internal/assert"
	"weft/internal/refusal"
	"weft/internal/require"
)

// TestWrite: what is written in a stream are the bytes of the store of the same graph made in memory.
func TestWrite(t *testing.T) {
	var plain, weighted, featured strings.Builder
	featured.WriteString("a,u,weight,v,b\n")
	for k := range 5000 {
		u, v := k*7919%301, k*k%307
		fmt.Fprintf(&plain, "%d %d\n", u, v)
		fmt.Fprintf(&weighted, "%d,%d,%d.5\n", u, v, k)
		fmt.Fprintf(&featured, "%d,%d,%d.5,%d,-%d\n", k, u, k%7, v, k%11)
	}
	const vertices = 310
	class, rows, wide, marks := make([]int64, vertices), make([]float32, 2*vertices),
		make([]float64, 200*vertices), make([]bool, vertices)
	for v := range vertices {
		class[v], marks[v], rows[2*v] = int64(v%4)-1, v%4 > 1, float32(v)
	}
	for k := range wide {
		wide[k] = float64(k % 2)
	}
	list, x, y := write(t, "list.txt", plain.String()), array(t, rows, vertices, 2), array(t, class, vertices)
	split := func(g *graph.Graph) error { return g.MakeSplits("random:50/25/25", 2, 7) }
	words := "id,label\n"
	for v := range vertices {
		words += fmt.Sprintf("%d,%c\n", (v+100)%vertices, 'a'+v%3)
	}
	for name, c := range map[string]struct {
		o          Options
		symmetrize bool
		split      func(*graph.Graph) error
	}{
		"edges alone":    {o: Options{Path: list}},
		"vertices given": {o: Options{Path: list, Vertices: 5000}},
		"symmetric":      {o: Options{Path: list}, symmetrize: true},
		"weights": {o: Options{
			Path:     write(t, "weighted.csv", weighted.String()),
			Features: x, Labels: y,
		}},
		"weights, both": {
			o: Options{Path: write(t, "both.csv", weighted.String()), Features: x}, symmetrize: true,
		},
		"features": {o: Options{
			Path: write(t, "featured.csv", featured.String()), EdgeFeatures: []string{"b", "a"},
		}},
		"all columns": {o: Options{
			Path: write(t, "all.csv", featured.String()), EdgeFeatures: []string{"b", "a", "weight"},
		}, symmetrize: true},
		"given split": {o: Options{Path: list, Labels: y, Train: array(t, marks, vertices)}},
		"a rule": {
			o:     Options{Path: list, Features: array(t, wide, vertices, 200), Labels: y},
			split: split,
		},
		"several classes": {o: Options{Path: list, Labels: array(t, make([]uint8, 3*vertices), vertices, 3)}},
		"values":          {o: Options{Path: list, Labels: array(t, rows, vertices, 2)}},
		"kept dense": {o: Options{Path: list, Features: array(t, make([]float32, 300*vertices), vertices,
			300), DenseFeatures: true}},
		"sparse rows": {
			o: Options{Path: list, Features: array(t, make([]float32, 300*vertices), vertices, 300)},
		},
		"text": {o: Options{
			Path: list, Features: write(t, "x.csv", strings.Repeat("1,2.5\n", vertices)),
			Labels: write(t, "words.csv", words),
		}},
		"names": {
			o:          Options{Path: list, Strings: true, Labels: write(t, "words.csv", words)},
			symmetrize: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			g, err := Open(c.o)
			require.NoError(t, err)
			if g.Symmetrize = c.symmetrize; c.split != nil {
				g.Prepare = func() error { return c.split(g.InMemory) }
			}
			whole, err := Read(c.o)
			if err == nil && c.symmetrize {
				whole, err = whole.Symmetrize()
			}
			if err == nil && c.split != nil {
				err = c.split(whole)
			}
			require.NoError(t, err)
			streamedtest.Equal(t, g, whole)
		})
	}
}

// TestWriteRefuses: what is refused names the file, and nothing is left.
func TestWriteRefuses(t *testing.T) {
	list := write(t, "list.txt", "0 1\n1 2\n")
	nan := array(t, []float32{1, 2, float32(math.NaN())}, 3, 1)
	for want, o := range map[string]Options{
		"no such file":                              {Path: "missing.txt"},
		nan + ": feature 0 of vertex 2 is NaN":      {Path: list, Features: nan},
		"has 2 rows, the graph of " + list + " has": {Path: list, Features: array(t, []float32{1, 2}, 2, 1)},
		"features of shape [3]":                     {Path: list, Features: array(t, []float32{1, 2, 3}, 3)},
		list + ":2: vertex 2 is out of the range":   {Path: list, Vertices: 2},
	} {
		dir := t.TempDir()
		g, err := Open(o)
		if err == nil {
			_, err = g.Write(filepath.Join(dir, "store"))
		}
		assert.Refused(t, err, want)
		assert.Empty(t, streamedtest.Files(t, dir), "%s: left", want)
	}
}

// TestFullDiskIsNoRefusal: where edges cannot be kept, the list of edges is not to blame.
func TestFullDiskIsNoRefusal(t *testing.T) {
	g, err := Open(Options{Path: write(t, "list.txt", "0 1\n1 2\n")})
	require.NoError(t, err)
	err = g.Relations[0].Each(func(graph.Edges) error { return syscall.ENOSPC })
	if !errors.Is(err, syscall.ENOSPC) || refusal.Is(err) || strings.Contains(err.Error(), "list.txt") {
		t.Errorf("error %v, want that of the disk alone", err)
	}
}

// TestWriteWithoutMemory: edges that exceed the memory are written, in a stream. Read refuses them.
func TestWriteWithoutMemory(t *testing.T) {
	const edges, vertices, left = 8 << 20, 1 << 20, 160 << 20
	path := filepath.Join(t.TempDir(), "list.txt")
	f, err := os.Create(path)
	require.NoError(t, err)
	b := bufio.NewWriter(f)
	var line []byte
	for k := range int64(edges) {
		line = append(strconv.AppendInt(line[:0], k*7919%vertices, 10), ' ')
		line = append(strconv.AppendInt(line, k*104729%(vertices-1), 10), '\n')
		b.Write(line)
	}
	require.NoError(t, b.Flush())
	require.NoError(t, f.Close())
	streamedtest.BeyondMemory(t, left, edges,
		func() (*streamed.Graph, error) { return Open(Options{Path: path}) })
}
