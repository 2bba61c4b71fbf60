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
	"runtime"
	"slices"

	"weft/internal/npy"
)

// The numbers of ogbn-papers100M (Hu et al. 2020, arXiv:2005.00687).
const (
	allVertices = 111_059_956
	allEdges    = 1_615_685_872 // as stored, each in one direction
	columns     = 128
	classes     = 172
	allTrain    = 1_207_179
	allVal      = 125_265
	allTest     = 214_338
)

// What the generated graph is like. A vertex is a paper. Each class consists of fields.
const (
	fieldSize = 2000 // vertices of a field, about
	signal    = 0.25 // standard deviation of the classes' centres; that of the noise around them is 1
	block     = 1 << 16
)

// levels says how near the papers are that a paper cites: that share of them is in the same of so many parts
// of equal size, and the others are in the same field. The parts of a level are parts of those before. These
// shares make 4, 8 and 16 partitions with 0.6, 1.5 and 1.9 halo rows for each vertex. Published for
// ogbn-papers100M are 0.52, 1.13 and 2.02 (NeutronTask, VLDB 2025).
var levels = []struct {
	parts int
	share float64
}{{1, 0.03}, {4, 0.06}, {43, 0.11}, {classes, 0.25}}

// papers is a generated graph with the shape of a share of ogbn-papers100M. It is a pure function of the
// share.
//
// Vertices lie at positions, where those of a class and of a field are neighbours. Ids are a permutation of
// these, so that they tell nothing.
type papers struct {
	vertices, edges  int
	train, val, test int // labelled vertices
	fields           int // a multiple of classes
	ids, labelled    permutation
}

func newPapers(share float64) *papers {
	of := func(n int) int { return max(1, int(math.Round(share*float64(n)))) }
	p := &papers{vertices: max(2*classes, of(allVertices)), edges: of(allEdges), train: of(allTrain), val: of(allVal), test: of(allTest)}
	p.fields = classes * max(1, p.vertices/classes/fieldSize)
	p.ids, p.labelled = newPermutation(p.vertices, 2_654_435_761, 1), newPermutation(p.vertices, 3_266_489_917, 2)
	return p
}

// permutation is the map x → factor·x + shift modulo n.
type permutation struct{ n, factor, inverse, shift uint64 }

// newPermutation returns a permutation of [0, n) for a prime factor of at least n.
func newPermutation(n int, factor, shift uint64) permutation {
	p := permutation{n: uint64(n), factor: factor % uint64(n), shift: shift % uint64(n)}
	// Euclid's algorithm: old·factor = r modulo n
	r, next, old, s := int64(p.factor), int64(n), int64(1), int64(0)
	for next != 0 {
		q := r / next
		r, next, old, s = next, r-q*next, s, old-q*s
	}
	p.inverse = uint64((old%int64(n) + int64(n)) % int64(n))
	return p
}

func (p permutation) at(x uint64) uint64 { return (x*p.factor + p.shift) % p.n }

// of returns the x whose image is y.
func (p permutation) of(y uint64) uint64 { return (y + p.n - p.shift) % p.n * p.inverse % p.n }

// class returns the class of a position.
func (p *papers) class(x uint64) int { return p.part(x, classes) }

// part returns in which of n equal ranges a position lies: the one that within begins at or before it.
func (p *papers) part(x uint64, n int) int { return int(((x+1)*uint64(n) - 1) / uint64(p.vertices)) }

// within returns the positions of part k of n.
func (p *papers) within(k, n int) (from, to uint64) {
	return uint64(k) * uint64(p.vertices) / uint64(n), uint64(k+1) * uint64(p.vertices) / uint64(n)
}

// cited draws the paper that the paper at x cites. Of n papers the r-th most cited one is drawn with a
// probability proportional to 1/√r, so that the numbers of in-edges follow a power law with the exponent 3.
func (p *papers) cited(x uint64, r *rand.Rand) uint64 {
	parts, where := p.fields, r.Float64()
	for _, level := range levels {
		if where -= level.share; where < 0 {
			parts = level.parts
			break
		}
	}
	from, to := p.within(p.part(x, parts), parts)
	n, u := to-from, r.Float64()
	const prime = 4_294_967_291 // that no field, class and whole have the same most cited papers
	return from + uint64(u*u*float64(n))*(prime%n)%n
}

// draw calls edge for each edge of a block, with positions.
func (p *papers) draw(b int, edge func(source, target uint64)) {
	r := rand.New(rand.NewPCG(1, uint64(b)))
	for range p.inBlock(b, p.edges) {
		x := r.Uint64N(uint64(p.vertices))
		y := p.cited(x, r)
		for y == x {
			y = p.cited(x, r)
		}
		edge(x, y)
	}
}

func (p *papers) inBlock(b, all int) int { return min(block, all-b*block) }

// ends returns the sources or the targets of the edges of a block, as ids.
func (p *papers) ends(b int, targets bool) []int64 {
	ids := make([]int64, 0, block)
	p.draw(b, func(source, target uint64) {
		end := source
		if targets {
			end = target
		}
		ids = append(ids, int64(p.ids.at(end)))
	})
	return ids
}

// features returns the features of a block of vertices: the centre of the class, and noise.
func (p *papers) features(b int, centres [][columns]float32) []float32 {
	r := rand.New(rand.NewPCG(2, uint64(b)))
	rows := make([]float32, 0, block*columns)
	for i := range p.inBlock(b, p.vertices) {
		for _, mean := range centres[p.class(p.ids.of(uint64(b*block+i)))] {
			rows = append(rows, mean+float32(r.NormFloat64()))
		}
	}
	return rows
}

func centres() [][columns]float32 {
	r, all := rand.New(rand.NewPCG(3, 0)), make([][columns]float32, classes)
	for c := range all {
		for j := range all[c] {
			all[c][j] = signal * float32(r.NormFloat64())
		}
	}
	return all
}

// rank returns which of the labelled vertices a vertex is; from p.known() on it has no label. Those that
// train come first, then those that validate.
func (p *papers) rank(id int) int { return int(p.labelled.of(uint64(id))) }

func (p *papers) known() int { return p.train + p.val + p.test }

// labels returns the labels of a block of vertices. NaN is none.
func (p *papers) labels(b int) []float32 {
	values := make([]float32, p.inBlock(b, p.vertices))
	for i := range values {
		id := b*block + i
		if values[i] = float32(math.NaN()); p.rank(id) < p.known() {
			values[i] = float32(p.class(p.ids.of(uint64(id))))
		}
	}
	return values
}

// years returns the years of a block of vertices, by which OGB splits them: up to 2017, 2018, and later.
func (p *papers) years(b int) []int64 {
	values := make([]int64, p.inBlock(b, p.vertices))
	for i := range values {
		rank := p.rank(b*block + i)
		switch {
		case rank < p.train || rank >= p.known():
			values[i] = int64(1990 + rank%28)
		case rank < p.train+p.val:
			values[i] = 2018
		default:
			values[i] = 2019
		}
	}
	return values
}

// write writes the folder that OGB's downloader would leave, with archives that are not compressed.
func (p *papers) write(folder string) error {
	for _, name := range []string{"raw", filepath.Join("split", "time")} {
		if err := os.MkdirAll(filepath.Join(folder, name), 0o777); err != nil {
			return err
		}
	}
	err := archive(filepath.Join(folder, "raw", "data.npz"), func(z *zip.Writer) error {
		centres := centres()
		return errors.Join(
			array(z, "num_nodes_list", "<i8", 1, func(int) []int64 { return []int64{int64(p.vertices)} }, 1),
			array(z, "num_edges_list", "<i8", 1, func(int) []int64 { return []int64{int64(p.edges)} }, 1),
			array(z, "edge_index", "<i8", 2*blocks(p.edges), func(b int) []int64 {
				half := blocks(p.edges)
				return p.ends(b%half, b >= half)
			}, 2, p.edges),
			array(z, "node_feat", "<f4", blocks(p.vertices), func(b int) []float32 { return p.features(b, centres) }, p.vertices, columns),
			array(z, "node_year", "<i8", blocks(p.vertices), p.years, p.vertices, 1),
		)
	})
	if err != nil {
		return err
	}
	err = archive(filepath.Join(folder, "raw", "node-label.npz"), func(z *zip.Writer) error {
		return array(z, "node_label", "<f4", blocks(p.vertices), p.labels, p.vertices, 1)
	})
	if err != nil {
		return err
	}
	from := 0
	for _, s := range []struct {
		name string
		size int
	}{{"train", p.train}, {"valid", p.val}, {"test", p.test}} {
		if err := p.split(filepath.Join(folder, "split", "time", s.name+".csv.gz"), from, from+s.size); err != nil {
			return err
		}
		from += s.size
	}
	return nil
}

// split writes the ids of the labelled vertices of some ranks, ascending.
func (p *papers) split(path string, from, to int) error {
	ids := make([]uint64, 0, to-from)
	for rank := from; rank < to; rank++ {
		ids = append(ids, p.labelled.at(uint64(rank)))
	}
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

func blocks(n int) int { return (n + block - 1) / block }

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

// array writes an array of n blocks into an archive, as numpy.savez does. Blocks are filled on all cores.
func array[T int64 | float32](z *zip.Writer, key, descr string, n int, fill func(b int) []T, shape ...int) error {
	entry, err := z.CreateHeader(&zip.FileHeader{Name: key + ".npy", Method: zip.Store})
	if err != nil {
		return err
	}
	w, err := npy.NewWriter(entry, descr, shape...)
	if err != nil {
		return err
	}
	filled := make(chan chan []T, runtime.GOMAXPROCS(0))
	go func() {
		defer close(filled)
		for b := range n {
			one := make(chan []T, 1)
			filled <- one
			go func() { one <- fill(b) }()
		}
	}()
	for one := range filled {
		values := <-one
		if err != nil { // the others only end
			continue
		}
		switch v := any(values).(type) {
		case []int64:
			err = w.WriteInt64s(v)
		case []float32:
			err = w.WriteFloat32s(v)
		}
	}
	return errors.Join(err, w.Close())
}
