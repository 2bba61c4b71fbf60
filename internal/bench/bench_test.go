package bench

import (
	"context"
	"encoding/json"
	"math"
	"regexp"
	"strings"
	"testing"

	"weft/internal/assert"
	"weft/internal/require"
	"weft/kernel"
	"weft/tensor"
)

func newArrays(t *testing.T, threads int) *arrays {
	team := kernel.NewTeam(threads, tensor.NewMeter())
	t.Cleanup(team.Memory.Close)
	return &arrays{team: team}
}

func tuned(g gather, ahead int) gather {
	g.ahead = ahead
	return g
}

// wordSum is a checksum by a plain loop.
func wordSum(values []float32) (sum uint32) {
	for _, v := range values {
		sum += math.Float32bits(v)
	}
	return sum
}

// TestGatherReadsItsRows: the checksum is that of a plain loop over the same rows, for each SIMD level,
// width, distance and number of matrices, for ends that are no whole block, and for destinations without
// indices and with many.
func TestGatherReadsItsRows(t *testing.T) { eachLevel(func() { gatherReadsItsRows(t) }) }

func gatherReadsItsRows(t *testing.T) {
	for _, threads := range []int{1, 3} {
		a := newArrays(t, threads)
		p := probes{a.team}
		for _, width := range []int{1, 3, 4, 12, 15, 16, 17, 41, 64, 100, 128, 144, 256, 512, 530} {
			x, y := a.matrix(50, width), a.matrix(50, 4)
			for _, n := range []int{1, 7, 255, 256, 700} {
				e := unevenRows(a, n, 50)
				one, two := uint32(0), uint32(0)
				for _, i := range e.Indices.Int32s() {
					one += wordSum(x.RowRange(int(i), int(i)+1).Floats())
					two += wordSum(y.RowRange(int(i), int(i)+1).Floats())
				}
				for _, ahead := range distances {
					require.Equal(t, one, p.gather(tuned(along(e, x), ahead)),
						"width %d, %d rows, %d ahead: checksum", width, n, ahead)
					require.Equal(t, one+two, p.gather(tuned(along(e, x, y), ahead)),
						"width %d, %d rows of two matrices, %d ahead: checksum", width, n, ahead)
				}
			}
		}
	}
}

// TestLinesReadsItsRows: of rows that a cache line holds a whole number of the first word is read, of
// others the last too, for each SIMD level, width, distance and number of matrices.
func TestLinesReadsItsRows(t *testing.T) {
	eachLevel(func() {
		for _, threads := range []int{1, 3} {
			a := newArrays(t, threads)
			p := probes{a.team}
			for width := 1; width <= lineWords; width++ {
				x, y := a.matrix(50, width), a.matrix(50, 3)
				for _, n := range []int{1, 7, 512, 513, 700} {
					e := unevenRows(a, n, 50)
					want := uint32(0)
					for _, i := range e.Indices.Int32s() {
						rowX, rowY := x.RowRange(int(i), int(i)+1).Floats(),
							y.RowRange(int(i), int(i)+1).Floats()
						want += math.Float32bits(rowX[0]) + math.Float32bits(rowY[0]) +
							math.Float32bits(rowY[2])
						if lineWords%width != 0 {
							want += math.Float32bits(rowX[width-1])
						}
					}
					g := along(e, x, y)
					g.lines = true
					for _, ahead := range distances {
						require.Equal(t, want, p.gather(tuned(g, ahead)),
							"width %d, %d rows, %d ahead: checksum", width, n, ahead)
					}
				}
			}
		}
	})
}

// TestThinBound: lines and indices are counted once, at the whole time of their probe.
func TestThinBound(t *testing.T) {
	b := newBench(Options{Threads: 1, Quick: true})
	defer b.close()
	a := &arrays{team: b.team}
	defer a.release()
	e := shape{rmat, 15, 3, inCache, 0}.graph(b, false)
	j := byLines(b.spmm(e, 3, nil, a.matrix(e.Cols, 1), a))
	passes, release := b.passes(j)
	defer release()
	for i, p := range passes {
		assert.Equal(t, 1, p.share, "probe %d counts for", i)
	}
	if want := float64(4 * (e.Entries()*(1+3+1) + 2*e.Indptr.Len() + e.Rows*3)); len(passes) != 3 ||
		boundBytes(j) != want {
		t.Errorf("%d probes of %v bytes, want 3 of %v", len(passes), boundBytes(j), want)
	}
}

// boundBytes is what the bound counts.
func boundBytes(j *job) float64 {
	n := j.written + 2*j.updated
	for _, g := range j.gathers {
		n += g.rowBytes()
		if g.lines {
			n += 4 * g.indices.Len()
		}
	}
	for _, m := range j.read {
		n += m.Len() * m.Element.Size()
	}
	return float64(n)
}

// TestCallsCountTheBound: a kernel's calls count the bytes that its bound counts, which knows nothing of
// them, and write as many. Attention's backward pass also writes and reads what it packs for each
// destination, and reads the gradient twice.
func TestCallsCountTheBound(t *testing.T) {
	b := newBench(Options{Threads: 2, Quick: true})
	defer b.close()
	for _, c := range b.cases() {
		a := &arrays{team: b.team}
		j := c.build(a)
		bytes := b.bytes(j)
		got, want := float64(bytes.Streamed+bytes.Gathered), boundBytes(j)
		more := 0.0
		if strings.Contains(c.name, "attention") && strings.Contains(c.name, "backward") {
			more = .2 * want
		}
		if got < want || got > want+more {
			t.Errorf("%s %s: calls count %v bytes, the bound %v", c.name, c.shape, got, want)
		}
		if written := j.written + j.updated; bytes.Least > 0 && bytes.Written != written {
			t.Errorf("%s %s: calls write %d bytes, the bound %d", c.name, c.shape, bytes.Written, written)
		}
		a.release()
	}
}

// unevenRows is a matrix of n entries, some of whose rows have none, and one of which has half of them.
func unevenRows(a *arrays, n, cols int) *kernel.CSR {
	ends := []int64{0, 0}
	for at := 0; at < n; {
		at = min(n, at+[]int{1, 0, 5, 20, n / 2}[len(ends)%5])
		ends = append(ends, int64(at))
	}
	ends = append(ends, int64(n))
	indptr := a.element(tensor.Int64, 1, len(ends))
	copy(indptr.Int64s(), ends)
	return &kernel.CSR{Rows: len(ends) - 1, Cols: cols, Indptr: indptr, Indices: a.ids(1, n, cols)}
}

// TestStreams: a read sums every word once, a write and an update reach every word once.
func TestStreams(t *testing.T) { eachLevel(func() { streams(t) }) }

func streams(t *testing.T) {
	for _, threads := range []int{1, 3} {
		a := newArrays(t, threads)
		p := probes{a.team}
		for _, n := range []int{1, 15, 16, 63, 64, 65, 1000, 4097} {
			m, long := a.matrix(n, 1), a.element(tensor.Int64, 1, 2)
			copy(long.Int64s(), []int64{3, 5 << 32})
			assert.Equal(t, wordSum(m.Floats())+8, p.read(m, long), "%d words: read", n)
			for _, write := range []func(*tensor.Matrix, uint32){p.write, p.past} {
				write(m, 7)
				p.update(m, 2)
				for i, v := range m.Floats() {
					require.Equal(t, 9, math.Float32bits(v), "word %d of %d", i, n)
				}
			}
		}
	}
}

// TestExponentials: the probe computes what it claims to, and as many as it says.
func TestExponentials(t *testing.T) { eachLevel(func() { exponentialsAreRight(t) }) }

func exponentialsAreRight(t *testing.T) {
	x, z := make([]float32, 1003), make([]float32, 1003)
	for i := range x {
		x[i] = 174*float32(i)/1002 - 87
	}
	exponentials(z, x, 2)
	for i := range x {
		if want := math.Exp(float64(x[i])); math.Abs(float64(z[i])-want) > 3e-7*want {
			t.Errorf("e^%v is %v, want %v", x[i], z[i], want)
		}
	}
	p := probes{newArrays(t, 3).team}
	assert.Equal(t, expPerCall*9, p.exp(expPerCall*6+1).amount, "exponentials")
}

// TestScoreTerms: the probe computes what it claims to, and as many terms as it says.
func TestScoreTerms(t *testing.T) {
	eachLevel(func() {
		x, y, a, want := make([]float32, 192), make([]float32, 192), make([]float32, 192), 0.0
		for i := range x {
			x[i], y[i], a[i] = float32(i%5)-2, float32(i%3)-1, float32(i%11)-4
			sum := float64(x[i] + y[i])
			want += float64(a[i]) * max(sum, .2*sum)
		}
		assert.Near(t, 3*want, float64(scoreTerms(x, y, a, 3)), 1e-4*math.Abs(want), "sum")
	})
	p := probes{newArrays(t, 3).team}
	assert.Equal(t, scorePerCall*9, p.score(scorePerCall*6+1).amount, "terms")
}

// TestBound: the bound counts each part at its share of a probe, and the bytes are those of the formulas in
// the doc comments.
func TestBound(t *testing.T) {
	b := newBench(Options{Threads: 1, Quick: true})
	defer b.close()
	a := &arrays{team: b.team}
	defer a.release()
	s := shape{uniform, 5, 32, inCache, 4}
	v := s.graph(b, false).Rows
	e := 5 * v
	structure := 8*(v+1) + 4*e
	for name, c := range map[string]struct {
		j                             *job
		gathered, read, written, both int
		exps, scores                  int
	}{
		"sum": {b.sum(s, a), 128 * e, structure, 128 * v, 0, 0, 0},
		"mean": {
			b.spmm(s.graph(b, false), 32, a.zeros(v, 1), nil, a), 128 * e, structure + 4*v, 128 * v, 0, 0, 0,
		},
		"symmetric": {
			b.spmm(s.graph(b, false), 32, a.zeros(v, 1), a.zeros(v, 1), a), 132 * e,
			structure + 4*v, 128 * v, 0, 0, 0,
		},
		"max":       {b.max(s, a), 128 * e, structure, 256 * v, 0, 0, 0},
		"attention": {b.attend(s, gat, a), (128 + 16) * e, structure + 16*v, (128 + 16) * v, 0, 4 * e, 0},
		"attention backward": {
			b.attendBackward(s, gat, a), (128+16)*e + (128+48)*e, 2*structure + 2*128*v + 4*16*v, 0,
			(128 + 32) * v, 8 * e, 0,
		},
		"attention v2 backward": {b.attendBackward(s, gatV2, a), 128*e + (2*128+32)*e, 2*structure + 3*128*v +
			2*16*v, 0, 256 * v, 8 * e, 64 * e},
		"attention v2": {b.attend(s, gatV2, a), 128 * e, structure + 128*v, (128 + 16) * v, 0, 4 * e, 32 * e},
	} {
		gathered, read := 0, 0
		for _, g := range c.j.gathers {
			gathered += g.rowBytes()
		}
		for _, m := range c.j.read {
			read += m.Len() * m.Element.Size()
		}
		got := []int{gathered, read, c.j.written, c.j.updated, c.j.exps, c.j.scores}
		assert.Equal(t, []int{c.gathered, c.read, c.written, c.both, c.exps, c.scores}, got,
			"%s: gathered, read, written, updated, exponentials, terms", name)
		var shares []float64
		for _, g := range c.j.gathers {
			// Without the structure, which is streamed
			shares = append(shares, float64(g.rowBytes())/float64(g.rowBytes()+structure))
		}
		for _, bytes := range []int{c.read, c.written, c.both} {
			if bytes > 0 {
				shares = append(shares, 1)
			}
		}
		// In whole calls
		for _, of := range [][2]float64{{float64(c.exps), expPerCall}, {float64(c.scores), scorePerCall}} {
			if of[0] > 0 {
				shares = append(shares, of[0]/(math.Ceil(of[0]/of[1])*of[1]))
			}
		}
		passes, release := b.passes(c.j)
		release()
		var found []float64
		for _, p := range passes {
			found = append(found, p.share)
		}
		assert.Equal(t, shares, found, "%s: shares of the probes", name)
	}
	passes := []pass{{share: .5}, {share: 1}}
	assert.Equal(t, .75, fraction([]float64{4, 2, 8}, passes, [][]float64{{2, 2, 2}, {3, .5, 1}}),
		"the median of 4/4, 1.5/2 and 2/8")
}

// TestProducts: compute alone is the bound from 256 on, and the rate is that of the square product.
func TestProducts(t *testing.T) {
	b := newBench(Options{Threads: 2, Quick: true})
	defer b.close()
	for _, c := range []struct {
		p       product
		passes  int
		compute bool
	}{
		{product{512, 256, 256}, 1, true},
		{product{512, 256, 255}, 3, false},
		{product{64, 256, 256}, 3, false},
	} {
		a := &arrays{team: b.team}
		x, w, z := a.matrix(c.p.rows, c.p.in), a.matrix(c.p.in, c.p.out), a.matrix(c.p.rows, c.p.out)
		j := c.p.job(func() { b.team.MatMul(z, x, w, kernel.Straight, kernel.Replace) }, z, x, w)
		passes, release := b.passes(j)
		if len(passes) != c.passes || j.compute != c.compute {
			t.Errorf("%v: %d probes, compute %v", c.p, len(passes), j.compute)
		}
		assert.Equal(t, j.flops/b.square.amount, passes[0].share, c.p)
		release()
		a.release()
	}
}

// TestMedian: the middle value, or the mean of two.
func TestMedian(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   float64
	}{{[]float64{3}, 3}, {[]float64{4, 1}, 2.5}, {[]float64{9, 1, 2}, 2}, {[]float64{9, 1, 2, 4}, 3}} {
		assert.Equal(t, c.want, median(c.values), "median of %v", c.values)
	}
}

// TestKernels: every kernel runs and has a fraction, and the report has the fields that other programs read.
func TestKernels(t *testing.T) {
	told := 0
	r, err := Kernels(t.Context(), Options{Threads: 2, Quick: true, CPU: "a processor"}, func(Machine) {},
		func(Kernel) { told++ })
	require.NoError(t, err)
	names := map[string]bool{}
	for _, k := range r.Kernels {
		names[k.Name] = true
		if !(k.Fraction > 0) || math.IsInf(k.Fraction, 0) || !(k.Seconds > 0) ||
			!(k.GBytesPerSec > 0) || k.Threads != 2 {
			t.Errorf("%+v", k)
		}
		if k.Bound != "compute" && k.Bound != "memory" {
			t.Errorf("%s %s: bound %q", k.Name, k.Shape, k.Bound)
		}
	}
	for _, name := range []string{
		"spmm sum", "spmm mean backward", "max", "attention", "attention backward",
		"attention v2", "product", "adam", "thin sum", "thin attention backward",
	} {
		if !names[name] {
			t.Errorf("no kernel %q", name)
		}
	}
	assert.Equal(t, len(r.Kernels), told, "told")
	text, err := json.Marshal(r)
	require.NoError(t, err)
	var fields struct {
		Machine map[string]any
		Kernels []map[string]any
	}
	require.NoError(t, json.Unmarshal(text, &fields))
	want := map[string]bool{
		"name": true, "shape": true, "threads": true, "seconds": true, "gflops": true,
		"gbytes_per_second": true, "bound": true, "fraction": true,
	}
	assert.Equal(t, want, keys(fields.Kernels[0]))
}

func keys(m map[string]any) map[string]bool {
	set := map[string]bool{}
	for k := range m {
		set[k] = true
	}
	return set
}

// TestMachineRates: the rate of dense products is that of Float32 matrices and the one beside it that of
// BFloat16 ones, no other rate is of products, and each field has a measured number of its own.
func TestMachineRates(t *testing.T) {
	b := newBench(Options{Threads: 1, Quick: true})
	defer b.close()
	a := &arrays{team: b.team}
	defer a.release()
	var m Machine
	passes := map[*float64]float64{} // the bytes of the products of a rate for each of their operations
	for _, r := range b.measuredOf(&m, a) {
		b.team.Watch = func(c kernel.Call, run func()) {
			passes[r.rate] += float64(c.Bytes.Streamed) / r.work.amount
			run()
		}
		r.work.run()
	}
	b.team.Watch = nil
	// Of n or 4·n rows and n columns, 2·n operations for each number of the result
	const n = 256
	want := map[*float64]float64{
		&m.Flops: (4 + 4 + 4) / (2. * n), &m.BFloat16Flops: (2 + 2 + 4./4) / (2. * n),
	}
	assert.Equal(t, want, passes, "bytes of products for an operation")

	m = b.machine()
	rates := map[float64]bool{}
	for _, rate := range []float64{
		m.Gather, m.Read, m.Write, m.Update, m.Flops, m.BFloat16Flops, m.Exp, m.Score,
	} {
		if !(rate > 0) || rates[rate] {
			t.Errorf("a rate is 0 or another's: %+v", m)
		}
		rates[rate] = true
	}
}

// TestEpochBound: the operations of products, the gathered bytes and those that are needed are each divided
// by their rate, once for each time that a call is made, and the precision chooses the rate of products.
func TestEpochBound(t *testing.T) {
	m := Machine{Gather: 10, Read: 10, Write: 5, Flops: 100, BFloat16Flops: 400}
	calls := map[kernel.Call]*Call{}
	for _, c := range []struct {
		name  string
		shape kernel.Shape
		bytes kernel.Bytes
		times int
	}{
		{"product", kernel.Shape{50, 2, 3}, kernel.Bytes{Streamed: 70, Least: 40, Written: 15}, 2},
		{"weight", kernel.Shape{10, 4, 5}, kernel.Bytes{Streamed: 20, Least: 20}, 1},
		{"spmm", kernel.Shape{50, 7}, kernel.Bytes{Streamed: 300, Least: 100, Written: 40, Gathered: 30}, 3},
		{"finish", kernel.Shape{50, 7}, kernel.Bytes{Streamed: 1000}, 4},
	} {
		calls[kernel.Call{Kernel: c.name, Shape: c.shape, Bytes: c.bytes}] = &Call{Times: c.times}
	}
	// 2·(2·50·2·3) + 2·10·4·5 = 1600 operations, 3·30 bytes gathered, 2·25 + 20 + 3·60 read and 2·15 + 3·40
	// written
	assert.Equal(t, Bound{16, 9, 25 + 30}, m.bound(calls, f32), "float32")
	assert.Equal(t, Bound{4, 9, 25 + 30}, m.bound(calls, bf16), "bfloat16")
	assert.Equal(t, 80., Bound{16, 9, 55}.seconds(), "seconds")
}

// TestEpoch: each model has an epoch in either precision and the kernel calls of one, without those of an
// evaluation, and JSON has the agreed fields.
func TestEpoch(t *testing.T) {
	r, err := Epoch(t.Context(), Options{Threads: 2, Quick: true, Only: regexp.MustCompile("rmat")},
		func(Machine) {}, func(Model) {})
	require.NoError(t, err)
	require.Len(t, r.Models, 6, "models")
	streamed := map[string]float64{} // of a precision
	for _, m := range r.Models {
		if !(m.EpochSeconds > 0) || !(m.KernelSeconds > 0) || m.Fraction != m.KernelSeconds/m.EpochSeconds ||
			!strings.HasPrefix(m.Graph, "rmat ") {
			t.Errorf("%+v", m)
		}
		if !(m.Bound.Products > 0) || !(m.Bound.Gathered > 0) || !(m.Bound.Streamed > 0) ||
			m.BoundSeconds != m.Bound.seconds() || m.TimesBound != m.EpochSeconds/m.BoundSeconds {
			t.Errorf("%+v", m)
		}
		streamed[m.Precision] += m.Bound.Streamed
		seconds, made := 0.0, map[string]int{}
		for _, c := range m.Calls {
			seconds += c.Seconds
			made[c.Name+" "+c.Shape] += c.Times
		}
		if math.Abs(seconds-m.KernelSeconds) > 1e-9*seconds || made["cross_entropy 1229×16"] != 1 ||
			made["adam 16×8"] == 0 {
			t.Errorf("%s: %v seconds of %v", m.Model, m.KernelSeconds, m.Calls)
		}
		text, err := json.Marshal(m)
		require.NoError(t, err)
		var fields map[string]any
		require.NoError(t, json.Unmarshal(text, &fields))
		want := map[string]bool{
			"model": true, "precision": true, "graph": true, "epoch_seconds": true, "kernel_seconds": true,
			"fraction": true, "bound": true, "bound_seconds": true, "times_bound": true,
		}
		assert.Equal(t, want, keys(fields))
	}
	if half := streamed[bf16] / streamed[f32]; !(half > .5 && half < .7) {
		t.Errorf("bfloat16 has %v of the streamed bytes of float32", half)
	}
}

// TestOnlyNothing: a filter that leaves nothing is refused, and an ended context stops before the next
// measurement.
func TestOnlyNothing(t *testing.T) {
	o := Options{Threads: 1, Quick: true, Only: regexp.MustCompile("^no such")}
	_, err := Kernels(t.Context(), o, func(Machine) {}, func(Kernel) {})
	assert.Refused(t, err, "", "kernels")
	_, err = Epoch(t.Context(), o, func(Machine) {}, func(Model) {})
	assert.Refused(t, err, "", "epoch")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	o.Only = regexp.MustCompile("^adam")
	if r, err := Kernels(ctx, o, func(Machine) {}, func(Kernel) {}); err == nil || len(r.Kernels) > 0 {
		t.Errorf("ended: %v, %d kernels", err, len(r.Kernels))
	}
}

// TestWholeCalls: every thread has as many whole calls of a product, and there are no more of them than
// needed.
func TestWholeCalls(t *testing.T) {
	const p = kernel.ProductRows
	for _, c := range []struct{ n, threads, want int }{
		{1, 1, p}, {p, 1, p}, {p + 1, 1, 2 * p}, {3 * p, 2, 4 * p}, {4 * p, 2, 4 * p}, {8*p - 1, 64, 64 * p},
	} {
		assert.Equal(t, c.want, wholeCalls(c.n, c.threads), "%d rows for %d threads", c.n, c.threads)
	}
}
