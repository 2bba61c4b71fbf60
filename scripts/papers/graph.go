package main

import (
	"archive/zip"
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"

	"weft/internal/npy"
)

// shape is the numbers of a published graph.
type shape struct {
	name             string // of the folder in OGB's layout
	vertices, edges  int    // edges as stored, each in one direction
	columns, classes int
	train, val, test int // numbers of labelled vertices
}

// papers100M is ogbn-papers100M (Hu et al. 2020, arXiv:2005.00687). igbMedium is the homogeneous medium graph
// of the Illinois Graph Benchmark (Khatua et al. 2023, arXiv:2302.13522), with 19 classes and the split of
// its loader.
// with the split of its loader.
var (
	papers100M = shape{"ogbn_papers100M", 111_059_956, 1_615_685_872, 128, 172, 1_207_179, 125_265, 214_338}
	igbMedium  = shape{"igb_medium", 10_000_000, 120_077_694, 1024, 19, 6_000_000, 2_000_000, 2_000_000}
)

// These describe a generated graph. A vertex is a paper, and each area consists of fields.
const (
	areas     = 172
	fieldSize = 2000 // vertices of a field, about
	signal    = 0.25 // standard deviation of the classes' centres; that of the noise is 1
)

// levels says how near cited papers are: that share of them is in the same of so many equal parts, and the
// others are in the same field. The parts of a level divide the parts of the level before. These shares give
// 4, 8 and 16 partitions of papers100M 0.6, 1.5 and 1.9 halo rows for each vertex. Published for
// ogbn-papers100M are 0.52, 1.13 and 2.02 (NeutronTask, VLDB 2025).
var levels = []struct {
	parts int
	share float64
}{{1, 0.03}, {4, 0.06}, {43, 0.11}, {areas, 0.25}}

// generated is a graph with the shape of a share of a published one. It is a pure function of both.
//
// Vertices lie at positions. The vertices of a class, and of a field, are neighbours. Ids are a permutation
// of the positions, so that they tell nothing.
type generated struct {
	shape                  // the share's shape, with all columns and classes
	fields         int     // a multiple of areas
	ids, positions []int32 // id at each position, and position of each id
	rank           []int32 // place of each id in another random order; the first places have labels
}

// generate makes the graph of a share, without its edges and features, which write draws.
func (s shape) generate(share float64) *generated {
	scaled := func(n int) int { return max(1, int(math.Round(share*float64(n)))) }
	p := &generated{shape: s}
	p.vertices, p.edges = max(2*areas, scaled(s.vertices)), scaled(s.edges)
	p.train, p.val = scaled(s.train), scaled(s.val)
	p.test = min(scaled(s.test), p.vertices-p.train-p.val) // if all have labels, each number is rounded
	p.fields = areas * max(1, p.vertices/areas/fieldSize)
	p.ids, p.rank = permutation(p.vertices, 1), permutation(p.vertices, 2)
	p.positions = make([]int32, p.vertices)
	for x, id := range p.ids {
		p.positions[id] = int32(x)
	}
	return p
}

// permutation returns the numbers from 0 to below n in a random order.
func permutation(n int, seed uint64) []int32 {
	all := make([]int32, n)
	for i := range all {
		all[i] = int32(i)
	}
	rand.New(rand.NewPCG(seed, seed)).Shuffle(n, func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

// class returns the class of a vertex.
func (p *generated) class(id int) int { return p.part(uint64(p.positions[id]), p.classes) }

// part returns the number of the one of n equal ranges that has a position: the range whose begin, by within,
// is the last at or before it.
func (p *generated) part(x uint64, n int) int { return int(((x+1)*uint64(n) - 1) / uint64(p.vertices)) }

// within returns the positions of part k of n.
func (p *generated) within(k, n int) (from, to uint64) {
	return uint64(k) * uint64(p.vertices) / uint64(n), uint64(k+1) * uint64(p.vertices) / uint64(n)
}

// cited draws the paper that the paper at x cites. It draws the r-th most cited of n papers with a
// probability proportional to 1/√r, so that the numbers of in-edges follow a power law with the exponent 3.
func (p *generated) cited(x uint64, r *rand.Rand) uint64 {
	parts := p.fields
	where := r.Float64()
	for _, level := range levels {
		where -= level.share
		if where < 0 {
			parts = level.parts
			break
		}
	}
	from, to := p.within(p.part(x, parts), parts)
	n := to - from
	u := r.Float64()
	const prime = 4_294_967_291 // makes the most cited of field, area and whole differ
	return from + uint64(u*u*float64(n))*(prime%n)%n
}

// edge draws the positions of an edge.
func (p *generated) edge(r *rand.Rand) (source, target uint64) {
	source = r.Uint64N(uint64(p.vertices))
	for target = source; target == source; {
		target = p.cited(source, r)
	}
	return source, target
}

func (p *generated) known() int { return p.train + p.val + p.test }

// label returns the label of a vertex, NaN if it has none.
func (p *generated) label(id int) float32 {
	if int(p.rank[id]) >= p.known() {
		return float32(math.NaN())
	}
	return float32(p.class(id))
}

// write writes the folder that OGB's downloader would leave, with archives that are not compressed.
func (p *generated) write(folder string) error {
	for _, name := range []string{"raw", filepath.Join("split", "time")} {
		if err := os.MkdirAll(filepath.Join(folder, name), 0o777); err != nil {
			return err
		}
	}
	err := archive(filepath.Join(folder, "raw", "data.npz"), p.arrays)
	if err != nil {
		return err
	}
	err = archive(filepath.Join(folder, "raw", "node-label.npz"), func(z *zip.Writer) error {
		return array(z, "node_label", p.label, p.vertices, 1)
	})
	ids := make([]int, p.known())
	for id, rank := range p.rank {
		if int(rank) < len(ids) {
			ids[rank] = id
		}
	}
	for _, part := range []struct {
		name string
		size int
	}{{"train", p.train}, {"valid", p.val}, {"test", p.test}} {
		if err == nil {
			err = split(filepath.Join(folder, "split", "time", part.name+".csv.gz"), ids[:part.size])
		}
		ids = ids[part.size:]
	}
	return err
}

// arrays writes all arrays but the labels.
func (p *generated) arrays(z *zip.Writer) error {
	edges, noise := rand.New(rand.NewPCG(1, 0)), rand.New(rand.NewPCG(2, 0))
	centres := make([]float32, p.classes*p.columns)
	for i := range centres {
		centres[i] = signal * float32(noise.NormFloat64())
	}
	return errors.Join(
		array(z, "num_nodes_list", func(int) int64 { return int64(p.vertices) }, 1),
		array(z, "num_edges_list", func(int) int64 { return int64(p.edges) }, 1),
		array(z, "edge_index", func(k int) int64 {
			if k == p.edges { // now the targets of the same edges
				edges = rand.New(rand.NewPCG(1, 0))
			}
			source, target := p.edge(edges)
			if k < p.edges {
				return int64(p.ids[source])
			}
			return int64(p.ids[target])
		}, 2, p.edges),
		array(z, "node_feat", func(k int) float32 {
			return centres[p.class(k/p.columns)*p.columns+k%p.columns] + float32(noise.NormFloat64())
		}, p.vertices, p.columns),
	)
}

// split writes ids, ascending.
func split(path string, ids []int) error {
	slices.Sort(ids)
	return file(path, func(w io.Writer) error {
		z := gzip.NewWriter(w)
		for _, id := range ids {
			if _, err := fmt.Fprintln(z, id); err != nil {
				return err
			}
		}
		return z.Close()
	})
}

// file writes a file.
func file(path string, content func(io.Writer) error) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w := bufio.NewWriterSize(f, 1<<20)
	return errors.Join(content(w), w.Flush())
}

// archive writes a zip archive.
func archive(path string, content func(*zip.Writer) error) error {
	return file(path, func(w io.Writer) error {
		z := zip.NewWriter(w)
		return errors.Join(content(z), z.Close())
	})
}

// array writes an array into an archive, as numpy.savez does, with what value returns for each element in
// turn. It tells how far it is.
func array[T int64 | float32](z *zip.Writer, key string, value func(element int) T, shape ...int) error {
	entry, err := z.CreateHeader(&zip.FileHeader{Name: key + ".npy", Method: zip.Store})
	if err != nil {
		return err
	}
	n := 1
	for _, side := range shape {
		n *= side
	}
	const block = 1 << 16
	values := make([]T, 0, block)
	w, err := npy.NewWriter(entry, npy.Descr[T](), shape...)
	if err != nil {
		return err
	}
	reported := time.Now()
	for k := range n {
		values = append(values, value(k))
		if len(values) == block || k == n-1 {
			if err := npy.Write(w, values); err != nil {
				return err
			}
			values = values[:0]
			if time.Since(reported) > 2*time.Second {
				reported = time.Now()
				fmt.Fprintf(os.Stderr, "%s: %d of %d values\n", key, k+1, n)
			}
		}
	}
	return w.Close()
}
