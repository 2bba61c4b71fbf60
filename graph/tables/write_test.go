package tables

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
	"weft/graph/graphtest"
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
	pairs := graphtest.File(t, "list.txt", plain.String())
	x, y := array(t, rows, vertices, 2), array(t, class, vertices)
	split := func(g *graph.Graph) error { return g.MakeSplits("random:50/25/25", 2, 7) }
	words := "id,label\n"
	for v := range vertices {
		words += fmt.Sprintf("%d,%c\n", (v+100)%vertices, 'a'+v%3)
	}
	for name, c := range map[string]struct {
		o          list
		symmetrize bool
		split      func(*graph.Graph) error
	}{
		"edges alone":    {o: list{Path: pairs}},
		"vertices given": {o: list{Path: pairs, Vertices: 5000}},
		"symmetric":      {o: list{Path: pairs}, symmetrize: true},
		"weights": {o: list{
			Path:     graphtest.File(t, "weighted.csv", weighted.String()),
			Features: x, Labels: y,
		}},
		"weights, both": {
			o: list{Path: graphtest.File(t, "both.csv", weighted.String()), Features: x}, symmetrize: true,
		},
		"features": {o: list{
			Path: graphtest.File(t, "featured.csv", featured.String()), EdgeFeatures: []string{"b", "a"},
		}},
		"all columns": {o: list{
			Path: graphtest.File(t, "all.csv", featured.String()), EdgeFeatures: []string{"b", "a", "weight"},
		}, symmetrize: true},
		"given split": {o: list{Path: pairs, Labels: y, Train: array(t, marks, vertices)}},
		"a rule": {
			o:     list{Path: pairs, Features: array(t, wide, vertices, 200), Labels: y},
			split: split,
		},
		"several classes": {o: list{Path: pairs, Labels: array(t, make([]uint8, 3*vertices), vertices, 3)}},
		"values":          {o: list{Path: pairs, Labels: array(t, rows, vertices, 2)}},
		"kept dense": {o: list{Path: pairs, Features: array(t, make([]float32, 300*vertices), vertices,
			300), DenseFeatures: true}},
		"sparse rows": {
			o: list{Path: pairs, Features: array(t, make([]float32, 300*vertices), vertices, 300)},
		},
		"text": {o: list{
			Path: pairs, Features: graphtest.File(t, "x.csv", strings.Repeat("1,2.5\n", vertices)),
			Labels: graphtest.File(t, "words.csv", words),
		}},
		"names": {
			o:          list{Path: pairs, Strings: true, Labels: graphtest.File(t, "words.csv", words)},
			symmetrize: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			g, err := openList(c.o)
			require.NoError(t, err)
			if g.Symmetrize = c.symmetrize; c.split != nil {
				g.Prepare = func() error { return c.split(g.InMemory) }
			}
			whole, err := readList(c.o)
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
	pairs := graphtest.File(t, "list.txt", "0 1\n1 2\n")
	nan := array(t, []float32{1, 2, float32(math.NaN())}, 3, 1)
	short, flat := array(t, []float32{1, 2}, 2, 1), array(t, []float32{1, 2, 3}, 3)
	for want, o := range map[string]list{
		"no such file":                                     {Path: "missing.txt"},
		nan + ": feature 0 of vertex 2 is NaN":             {Path: pairs, Features: nan},
		"has 2 rows, the graph of " + pairs + " has":       {Path: pairs, Features: short},
		"features of shape [3]":                            {Path: pairs, Features: flat},
		pairs + ":2: target: vertex 2 is out of the range": {Path: pairs, Vertices: 2},
	} {
		dir := t.TempDir()
		g, err := openList(o)
		if err == nil {
			_, err = g.Write(filepath.Join(dir, "store"))
		}
		assert.Refused(t, err, want)
		assert.Empty(t, streamedtest.Files(t, dir), "%s: left", want)
	}
}

// TestFullDiskIsNoRefusal: where edges cannot be kept, the list of edges is not to blame.
func TestFullDiskIsNoRefusal(t *testing.T) {
	g, err := openList(list{Path: graphtest.File(t, "list.txt", "0 1\n1 2\n")})
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
		func() (*streamed.Graph, error) { return openList(list{Path: path}) })
}
