package nn_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"weft/autograd"
	"weft/internal/assert"
	"weft/kernel"
	"weft/kernel/kerneltest"
	"weft/kernel/reference"
	"weft/nn"
	"weft/tensor"
)

func newTeam(t *testing.T) *kernel.Team {
	team := kerneltest.Team(t, 2, tensor.NewMeter())
	t.Cleanup(team.Memory.Close)
	return team
}

// normal returns random numbers with the given mean and a deviation of 1.
func normal(team *kernel.Team, seed uint64, rows, cols int, mean float64) *tensor.Matrix {
	r := rand.New(rand.NewPCG(seed, seed))
	m := team.Memory.New(tensor.Features, rows, cols)
	for i := range m.Floats() {
		m.Floats()[i] = float32(mean + r.NormFloat64())
	}
	return m
}

func copyOf(team *kernel.Team, m *tensor.Matrix) *tensor.Matrix {
	c := team.Memory.New(tensor.Gradients, m.Rows, m.Cols)
	copy(c.Floats(), m.Floats())
	return c
}

func exact(m *tensor.Matrix) *reference.Matrix { return reference.From32(m.Rows, m.Cols, m.Floats()) }

// near fails unless numbers agree within 1e-5, or within 1e-5 of their size if that is above 1.
func near(t *testing.T, what string, got []float32, want []float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d numbers, want %d", what, len(got), len(want))
	}
	for i, w := range want {
		if g := float64(got[i]); !(math.Abs(g-w) <= 1e-5*math.Max(1, math.Abs(w))) {
			t.Fatalf("%s: number %d is %v, want %v", what, i, g, w)
		}
	}
}

// near32 fails unless numbers agree to the same precision.
func near32(t *testing.T, what string, got, want []float32) {
	t.Helper()
	near(t, what, got, reference.Vector(want))
}

// normed has the results of a forward and backward pass through a norm.
type normed struct {
	params *nn.Params
	z, dx  *tensor.Matrix
}

func pass(team *kernel.Team, training bool, make func(ps *nn.Params) nn.Norm, x, g *tensor.Matrix,
	rows *autograd.RowSet,
) normed {
	ps := nn.NewParams(team, 1)
	norm := make(ps)
	for k, p := range ps.List { // gamma and beta have either sign
		for i := range p.Value.Floats() {
			p.Value.Floats()[i] = float32(i%5) - 1.5 + float32(k)
		}
	}
	for _, b := range ps.Buffers {
		for i := range b.Write() {
			b.Write()[i] += float32(i) / 4
		}
		if b.Count != nil {
			*b.Count = 5
		}
	}
	tape := autograd.NewTrainingTape(team, autograd.Random{})
	tape.Training = training
	in := tape.Input(x, rows)
	out := norm.Forward(in, nn.InPlace, kernel.Identity, kernel.Mask{})
	z := copyOf(team, out.Value())
	tape.Backward(autograd.Root{Var: out, Grad: copyOf(team, g)})
	if training {
		ps.Commit()
	}
	return normed{ps, z, in.TakeGrad()}
}

// values returns the values of the parameters.
func (n normed) values() (all [][]float64) {
	for _, p := range n.params.List {
		all = append(all, reference.Vector(p.Value.Floats()))
	}
	return all
}

// holds compares a pass with the exact output, and the exact gradients of the input and of the parameters.
func (n normed) holds(t *testing.T, z, dx *reference.Matrix, dParams ...[]float64) {
	t.Helper()
	near(t, "output", n.z.Floats(), z.Data)
	near(t, "gradient", n.dx.Floats(), dx.Data)
	for k, want := range dParams {
		near(t, n.params.List[k].Name, n.params.List[k].Grad.Floats(), want)
	}
}

func batchNorm(width int) func(ps *nn.Params) nn.Norm {
	return func(ps *nn.Params) nn.Norm { return nn.NewBatchNorm(ps, "norm", width) }
}

// biasedNorm computes a batch norm of x − 2 with a bias of 2.
func biasedNorm(width int) func(ps *nn.Params) nn.Norm {
	return func(ps *nn.Params) nn.Norm { return biased{nn.NewBatchNorm(ps, "norm", width)} }
}

type biased struct{ *nn.BatchNorm }

func (b biased) Forward(x *autograd.Var, use nn.InputUse, act kernel.Activation,
	mask kernel.Mask,
) *autograd.Var {
	row := func(v float32) *autograd.Var {
		team := x.Tape().Team
		m := team.Zeros(tensor.Activations, 1, x.Cols())
		team.Fill(m, v)
		return x.Tape().Constant(m, nil)
	}
	x = autograd.Finish(autograd.Copy(x), row(-2), kernel.Identity, kernel.Mask{})
	return b.Biased(x, row(2), use, act, mask)
}

func layerNorm(width int) func(ps *nn.Params) nn.Norm {
	return func(ps *nn.Params) nn.Norm { return nn.NewLayerNorm(ps, "norm", width) }
}

func graphNorm(width int) func(ps *nn.Params) nn.Norm {
	return func(ps *nn.Params) nn.Norm { return nn.NewGraphNorm(ps, "norm", width) }
}

func pairNorm(width int) func(ps *nn.Params) nn.Norm {
	return func(*nn.Params) nn.Norm { return nn.NewPairNorm(width) }
}

// TestNormLeavesItsInputWhole: without recording, the result reuses the memory of an InPlace input, and of no
// other. Both results have the same bits.
func TestNormLeavesItsInputWhole(t *testing.T) {
	for name, make := range map[string]func(ps *nn.Params) nn.Norm{
		"batch": batchNorm(3),
		"layer": layerNorm(3),
		"graph": graphNorm(3),
		"pair":  pairNorm(3),
	} {
		team := newTeam(t)
		norm, input := make(nn.NewParams(team, 1)), normal(team, 1, 40, 3, 2)
		forward := func(use nn.InputUse) (x, z *tensor.Matrix) {
			in := autograd.Copy(autograd.NewTape(team).Constant(input, autograd.AllHere(40)))
			x = in.Value()
			return x, norm.Forward(in, use, kernel.ReLU, kernel.Mask{}).Value()
		}
		x, z := forward(nn.OutOfPlace)
		if !slices.Equal(x.Floats(), input.Floats()) {
			t.Errorf("%s: the input was changed", name)
		}
		over, again := forward(nn.InPlace)
		if over != again || !slices.Equal(z.Floats(), again.Floats()) {
			t.Errorf("%s: in place %v, or other bits", name, over == again)
		}
	}
}

// TestNormAgain: norms in sets from Again take no memory, and do not change what the first set commits.
func TestNormAgain(t *testing.T) {
	const cols = 256
	team := newTeam(t)
	ps := nn.NewParams(team, 1)
	nn.NewBatchNorm(ps, "norm", cols)
	x := normal(team, 1, 7, cols, 2)
	for range 3 {
		again, live := ps.Again(), team.Memory.LiveTensors()
		norm := nn.NewBatchNorm(again, "norm", cols)
		assert.Equal(t, live, team.Memory.LiveTensors())
		tape := autograd.NewTrainingTape(team, autograd.Random{})
		norm.Forward(tape.Input(x, autograd.AllHere(7)), nn.OutOfPlace, kernel.Identity, kernel.Mask{}).Drop()
		again.Commit()
	}
	assert.Equal(t, make([]float32, cols), ps.Buffers[0].Read())
	assert.Len(t, ps.Pending(), 1)
}

// TestCommitMovesOnce: Commit moves the running statistics once, however many training passes were made.
func TestCommitMovesOnce(t *testing.T) {
	team := newTeam(t)
	x := normal(team, 1, 40, 3, 2)
	after := func(passes int) *nn.Params {
		ps := nn.NewParams(team, 1)
		norm := nn.NewBatchNorm(ps, "norm", 3)
		for range passes {
			tape := autograd.NewTrainingTape(team, autograd.Random{})
			out := norm.Forward(tape.Input(x, autograd.AllHere(40)), nn.InPlace,
				kernel.Identity, kernel.Mask{})
			tape.Backward(autograd.Root{Var: out, Grad: team.Zeros(tensor.Gradients, 40, 3)})
		}
		if mean := ps.Buffers[0].Read(); !slices.Equal(mean, make([]float32, 3)) {
			t.Errorf("the running mean is %v before the end of the pass", mean)
		}
		ps.Commit()
		return ps
	}
	once, twice := after(1), after(2)
	for i, b := range once.Buffers[:2] {
		if !slices.Equal(b.Read(), twice.Buffers[i].Read()) {
			t.Errorf("%s: %v after one pass, %v after two", b.Name, b.Read(), twice.Buffers[i].Read())
		}
	}
	if n := *twice.Buffers[2].Count; n != 1 {
		t.Errorf("%d batches", n)
	}
}

func TestBatchNorm(t *testing.T) {
	for i, norm := range []func(int) func(*nn.Params) nn.Norm{batchNorm, batchNorm, biasedNorm, biasedNorm} {
		training := i%2 == 0
		for _, shape := range [][2]int{{2, 1}, {7, 3}, {1100, 6}} {
			team := newTeam(t)
			x, g := normal(team, 1, shape[0], shape[1], 2), normal(team, 2, shape[0], shape[1], 0)
			got := pass(team, training, norm(shape[1]), x, g, autograd.AllHere(shape[0]))
			fresh := func(at float64) []float64 {
				v := make([]float64, shape[1])
				for i := range v {
					v[i] = at + float64(i)/4
				}
				return v
			}
			p := got.values()
			gamma, beta, mean, variance := p[0], p[1], fresh(0), fresh(1)
			z := reference.BatchNormEval(exact(x), gamma, beta, mean, variance)
			dx, dGamma, dBeta := reference.BatchNormEvalBackward(exact(x), gamma, mean, variance, exact(g))
			batches := int64(5)
			if training {
				z, mean, variance = reference.BatchNorm(exact(x), gamma, beta, mean, variance)
				dx, dGamma, dBeta = reference.BatchNormBackward(exact(x), gamma, exact(g))
				batches++
			}
			got.holds(t, z, dx, dGamma, dBeta)
			near(t, "running mean", got.params.Buffers[0].Read(), mean)
			near(t, "running variance", got.params.Buffers[1].Read(), variance)
			if n := *got.params.Buffers[2].Count; n != batches {
				t.Errorf("%d batches were counted, want %d", n, batches)
			}
		}
	}
}

// peers are two workers in one process. Each Sum waits for the other worker's.
type peers struct {
	rank        int
	own, theirs chan []float64
}

func (p peers) Sum(values []float64) {
	p.theirs <- append([]float64(nil), values...)
	other := <-p.own
	for i, v := range other {
		if p.rank == 0 {
			values[i] += v
		} else {
			values[i] = v + values[i]
		}
	}
}

func (p peers) Max([]float64) { panic("no norm asks") }

// TestNormsOfTwoWorkers: two workers with unequal shares of the rows compute the same as one worker with all
// rows. Their gradients of parameters add up. One of the workers may have no rows at all.
func TestNormsOfTwoWorkers(t *testing.T) {
	for name, norm := range map[string]func(width int) func(ps *nn.Params) nn.Norm{
		"batch": batchNorm, "graph": graphNorm, "pair": pairNorm,
	} {
		t.Run(name, func(t *testing.T) { testTwoWorkers(t, norm) })
	}
}

func testTwoWorkers(t *testing.T, norm func(width int) func(ps *nn.Params) nn.Norm) {
	const rows, cols = 1500, 5
	for _, at := range []int{600, 1, 0} {
		team := newTeam(t)
		x, g := normal(team, 1, rows, cols, 3), normal(team, 2, rows, cols, 0)
		for v := range rows { // the two parts have means far apart
			if v < at {
				x.Floats()[v*cols] += 20
			}
		}
		whole := pass(team, true, norm(cols), x, g, autograd.AllHere(rows))
		a, b := make(chan []float64, 1), make(chan []float64, 1)
		var parts [2]normed
		var group sync.WaitGroup
		for rank, p := range []struct {
			lo, hi int
			peers  peers
		}{{0, at, peers{0, a, b}}, {at, rows, peers{1, b, a}}} {
			group.Go(func() {
				parts[rank] = pass(kerneltest.Team(t, 1, team.Memory), true, norm(cols),
					x.RowRange(p.lo, p.hi), g.RowRange(p.lo, p.hi),
					&autograd.RowSet{Here: p.hi - p.lo, Total: rows, Peers: p.peers})
			})
		}
		group.Wait()
		near32(t, "output", append(parts[0].z.Floats()[:at*cols:at*cols], parts[1].z.Floats()...),
			whole.z.Floats())
		near32(t, "gradient", append(parts[0].dx.Floats()[:at*cols:at*cols], parts[1].dx.Floats()...),
			whole.dx.Floats())
		for k, p := range whole.params.List {
			sum := copyOf(team, parts[0].params.List[k].Grad)
			team.Axpy(sum, 1, parts[1].params.List[k].Grad)
			near32(t, "gradient of "+p.Name, sum.Floats(), p.Grad.Floats())
		}
		running := min(2, len(whole.params.Buffers))
		for _, part := range parts {
			for k, b := range whole.params.Buffers[:running] {
				near32(t, b.Name, part.params.Buffers[k].Read(), b.Read())
			}
		}
		for k := range running {
			for c := range cols {
				if parts[0].params.Buffers[k].Read()[c] != parts[1].params.Buffers[k].Read()[c] {
					t.Errorf("the workers disagree on %s", whole.params.Buffers[k].Name)
				}
			}
		}
	}
}

// TestBatchNormOfNoSpread: a constant column and a single row are normalised to beta, and their gradient is
// zero.
func TestBatchNormOfNoSpread(t *testing.T) {
	for _, rows := range []int{1, 2000} {
		team := newTeam(t)
		x, g := normal(team, 1, rows, 3, 0), normal(team, 2, rows, 3, 0)
		for i := range x.Floats() {
			x.Floats()[i] = []float32{0, 0.1, -1e6}[i%3]
		}
		got := pass(team, true, batchNorm(3), x, g, autograd.AllHere(rows))
		beta := got.params.List[1].Value.Floats()
		for i, z := range got.z.Floats() {
			if z != beta[i%3] {
				t.Fatalf("%d rows: number %d is %v, want beta, %v", rows, i, z, beta[i%3])
			}
		}
		for i, d := range got.dx.Floats() {
			// γ·rstd is up to 1200 here, and it multiplies g less its own mean.
			if limit := 1e-3; rows == 1 && !(math.Abs(float64(d)) <= limit) || d != d {
				t.Fatalf("%d rows: gradient %d is %v", rows, i, d)
			}
		}
		for c, v := range got.params.Buffers[1].Read() { // moved by a tenth towards no variance
			if want := .9 * (1 + float64(c)/4); math.Abs(float64(v)-want) > 1e-6 {
				t.Errorf("%d rows: the running variance %d is %v, want %v", rows, c, v, want)
			}
		}
	}
}

// TestNormsOverAllVertices compares graph and pair norm with double precision, in training and in evaluation.
func TestNormsOverAllVertices(t *testing.T) {
	for _, training := range []bool{true, false} {
		for _, shape := range [][2]int{{2, 1}, {7, 3}, {1100, 6}} {
			team := newTeam(t)
			x, g := normal(team, 1, shape[0], shape[1], 2), normal(team, 2, shape[0], shape[1], 0)
			got := pass(team, training, graphNorm(shape[1]), x, g, autograd.AllHere(shape[0]))
			p := got.values()
			dx, dGamma, dBeta, dAlpha := reference.GraphNormBackward(exact(x), p[0], p[2], exact(g))
			got.holds(t, reference.GraphNorm(exact(x), p[0], p[1], p[2]), dx, dGamma, dBeta, dAlpha)
			got = pass(team, training, pairNorm(shape[1]), x, g, autograd.AllHere(shape[0]))
			got.holds(t, reference.PairNorm(exact(x)), reference.PairNormBackward(exact(x), exact(g)))
		}
	}
}

func TestLayerNorm(t *testing.T) {
	for _, shape := range [][2]int{{1, 1}, {1, 9}, {7, 2}, {1100, 33}} {
		team := newTeam(t)
		rows, cols := shape[0], shape[1]
		x, g := normal(team, 1, rows, cols, 2), normal(team, 2, rows, cols, 0)
		for c := range cols { // a constant row
			x.Floats()[c] = 7
		}
		if cols == 2 { // two numbers: the nearer they are, the steeper the norm
			for v := range rows {
				x.Floats()[2*v] = x.Floats()[2*v+1] + float32(v)
			}
		}
		got := pass(team, true, layerNorm(cols), x, g, autograd.AllHere(rows))
		p := got.values()
		near(t, "output", got.z.Floats(), reference.LayerNorm(exact(x), p[0], p[1]).Data)
		dx, dGamma, dBeta := reference.LayerNormBackward(exact(x), p[0], exact(g))
		for i, want := range dx.Data { // the constant row multiplies by 316
			if d := float64(got.dx.Floats()[i]); !(math.Abs(d-want) <= 1e-5*math.Max(1, math.Abs(want)) ||
				i < cols && math.Abs(d-want) <= 1e-3) {
				t.Fatalf("%v: gradient %d is %v, want %v", shape, i, d, want)
			}
		}
		near(t, "gamma", got.params.List[0].Grad.Floats(), dGamma)
		near(t, "beta", got.params.List[1].Grad.Floats(), dBeta)
	}
}

func TestNormNames(t *testing.T) {
	team := newTeam(t)
	for want, make := range map[string]func(ps *nn.Params) nn.Norm{
		"norm.module.weight norm.module.bias ":   batchNorm(4),
		"norm.weight norm.bias ":                 layerNorm(4),
		"norm.weight norm.bias norm.mean_scale ": graphNorm(4),
	} {
		ps := nn.NewParams(team, 1)
		make(ps)
		got := ""
		for _, p := range ps.List {
			got += p.Name + " "
		}
		if got != want {
			t.Errorf("parameters %q, want %q", got, want)
		}
		for _, p := range ps.List {
			if p.Decay != nn.NoDecay {
				t.Errorf("weight decay applies to %s", p.Name)
			}
		}
	}
}

// TestBiasBeforeGraphNorm: the norm of x + bias, and its gradients, equal those of a norm of x with the bias
// added before. As long as mean_scale is 1, the gradient of the bias is exactly 0.
func TestBiasBeforeGraphNorm(t *testing.T) {
	const rows, width = 50, 4
	team := newTeam(t)
	x, g := normal(team, 1, rows, width, 2), normal(team, 2, rows, width, 2)
	compute := func(scale float32, apart bool) (z, dx, dBias, dScale []float32) {
		ps := nn.NewParams(team, 1)
		norm, bias := nn.NewGraphNorm(ps, "norm", width), ps.Bias("bias", width, nn.Constant(0))
		for i := range width {
			bias.Value.Floats()[i] = float32(i) - 1.25
			ps.List[2].Value.Floats()[i] = scale
		}
		tape := autograd.NewTrainingTape(team, autograd.Random{})
		in := tape.Input(x, autograd.AllHere(rows))
		var out *autograd.Var
		if b := bias.On(tape); apart {
			out = norm.Forward(autograd.Finish(autograd.Copy(in), b, kernel.Identity, kernel.Mask{}),
				nn.InPlace, kernel.Identity, kernel.Mask{})
		} else {
			out = norm.Biased(in, b, nn.OutOfPlace, kernel.Identity, kernel.Mask{})
		}
		z = slices.Clone(out.Value().Floats())
		tape.Backward(autograd.Root{Var: out, Grad: copyOf(team, g)})
		return z, in.TakeGrad().Floats(), bias.Grad.Floats(), ps.List[2].Grad.Floats()
	}
	for _, scale := range []float32{.5, 1} {
		z, dx, dBias, dScale := compute(scale, false)
		wantZ, wantDX, wantDBias, wantDScale := compute(scale, true)
		for what, pair := range map[string][2][]float32{
			"output": {z, wantZ}, "input": {dx, wantDX},
			"bias": {dBias, wantDBias}, "mean_scale": {dScale, wantDScale},
		} {
			for i, v := range pair[0] {
				if want := float64(pair[1][i]); math.Abs(float64(v)-want) > 2e-5*(1+math.Abs(want)) {
					t.Errorf("mean_scale %g, %s: number %d is %g, want %g", scale, what, i, v, want)
				}
			}
		}
		if scale == 1 && slices.ContainsFunc(dBias, func(v float32) bool { return v != 0 }) {
			t.Errorf("gradients of the bias are %v, want zeros", dBias)
		}
	}
}
