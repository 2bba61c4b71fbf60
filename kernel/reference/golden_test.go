package reference

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// golden is a file of PyTorch's numbers: see gnn/testdata/golden.py.
type golden struct {
	metadata map[string]string
	floats   map[string]*Matrix // one row for a vector or a stack of vectors
	ints     map[string][]int64
}

func readGolden(t *testing.T, path string) *golden {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	n := binary.LittleEndian.Uint64(data)
	var header map[string]json.RawMessage
	if err := json.Unmarshal(data[8:8+n], &header); err != nil {
		t.Fatal(err)
	}
	g := &golden{floats: map[string]*Matrix{}, ints: map[string][]int64{}}
	for name, raw := range header {
		if name == "__metadata__" {
			if err := json.Unmarshal(raw, &g.metadata); err != nil {
				t.Fatal(err)
			}
			continue
		}
		var tensor struct {
			Dtype   string `json:"dtype"`
			Shape   []int  `json:"shape"`
			Offsets [2]int `json:"data_offsets"`
		}
		if err := json.Unmarshal(raw, &tensor); err != nil {
			t.Fatal(err)
		}
		b := data[8+int(n)+tensor.Offsets[0] : 8+int(n)+tensor.Offsets[1]]
		switch tensor.Dtype {
		case "I64":
			for ; len(b) > 0; b = b[8:] {
				g.ints[name] = append(g.ints[name], int64(binary.LittleEndian.Uint64(b)))
			}
		case "F32":
			var v []float32
			for ; len(b) > 0; b = b[4:] {
				v = append(v, math.Float32frombits(binary.LittleEndian.Uint32(b)))
			}
			rows := 1
			if len(tensor.Shape) == 2 {
				rows = tensor.Shape[0]
			}
			g.floats[name] = From32(rows, len(v)/rows, v)
		}
	}
	return g
}

func (g *golden) vector(name string) []float64 {
	if m := g.floats[name]; m != nil {
		return m.Data
	}
	return nil
}

// relation is the in-neighbour lists that a convolution runs over.
type relation struct {
	indptr   []int64
	indices  []int32
	weights  []float64
	features *Matrix // of the edges; nil: none
	loops    bool    // whether GCN and GAT add self loops
}

// edges sorts the edge list, or the reversed one, into in-neighbour lists.
func (g *golden) edges(reversed bool) (r relation) {
	list, w := g.ints["edge_index"], g.vector("edge_weight")
	sources, destinations := list[:len(list)/2], list[len(list)/2:]
	if reversed {
		sources, destinations = destinations, sources
	}
	r.indptr, r.loops = []int64{0}, true
	if of := g.floats["edge_attr"]; of != nil {
		r.features = New(0, of.Cols)
	}
	for i := range g.floats["x"].Rows {
		for e := range sources {
			if int(destinations[e]) == i {
				r.indices = append(r.indices, int32(sources[e]))
				if w != nil {
					r.weights = append(r.weights, w[e])
				}
				if of := g.floats["edge_attr"]; of != nil {
					r.features.Data = append(r.features.Data, of.Data[e*of.Cols:(e+1)*of.Cols]...)
					r.features.Rows++
				}
			}
		}
		r.indptr = append(r.indptr, int64(len(r.indices)))
	}
	return r
}

func wantClose(t *testing.T, name string, got, want []float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: %d numbers, want %d", name, len(got), len(want))
		return
	}
	scale := 0.0
	for _, v := range want {
		scale = math.Max(scale, math.Abs(v))
	}
	for k, v := range want {
		if !(math.Abs(got[k]-v) <= 1e-7*scale+1e-12) {
			t.Errorf("%s[%d]: %.9g, PyTorch %.9g", name, k, got[k], v)
			return
		}
	}
}

// layer is one convolution built from this package: forward, and backward, which files gradients under the
// parameters' names.
type layer struct {
	forward  func(x *Matrix) *Matrix
	backward func(x, dz *Matrix) (dx *Matrix)
}

// network runs a golden file's model with this package's functions.
type network struct {
	g     *golden
	grads map[string][]float64
	after map[string][]float64
}

// number is a number of the file's metadata.
func (n *network) number(t *testing.T, name string) float64 {
	t.Helper()
	x, err := strconv.ParseFloat(n.g.metadata[name], 64)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// decoupled reports whether the file's model is an MLP and rounds.
func (n *network) decoupled() bool {
	return n.g.metadata["decoupled"] == "yes" || n.g.metadata["model"] == "appnp"
}

// linear is x·wᵀ + b, b optional.
func (n *network) linear(name string) layer {
	w, b := n.g.floats["param."+name+".weight"], n.g.vector("param."+name+".bias")
	return layer{
		func(x *Matrix) *Matrix {
			z := MatMulTransB(x, w)
			if b != nil {
				z = AddBias(z, b)
			}
			return z
		},
		func(x, dz *Matrix) *Matrix {
			dx, dwt := MatMulBackward(x, w.Transpose(), dz)
			n.grads[name+".weight"] = dwt.Transpose().Data
			if b != nil {
				n.grads[name+".bias"] = AddBiasBackward(dz)
			}
			return dx
		},
	}
}

// bias is x + b, or x where the file has no such bias.
func (n *network) bias(name string) layer {
	b := n.g.vector("param." + name)
	if b == nil {
		return chain()
	}
	return layer{
		func(x *Matrix) *Matrix { return AddBias(x, b) },
		func(_, dz *Matrix) *Matrix {
			n.grads[name] = AddBiasBackward(dz)
			return dz
		},
	}
}

func (n *network) aggregate(a *Aggregation) layer {
	return layer{
		func(x *Matrix) *Matrix {
			z := New(x.Rows, x.Cols)
			SpMM(z, a, x)
			return z
		},
		func(x, dz *Matrix) *Matrix {
			dx := New(x.Rows, x.Cols)
			SpMMTranspose(dx, a, dz)
			return dx
		},
	}
}

// plain is convolutions with norm and activation between, and the rounds of a decoupled model.
func (n *network) plain(t *testing.T, layers, hidden int) layer {
	t.Helper()
	list, decoupled := "convs.", n.decoupled()
	if n.g.metadata["model"] == "mlp" || decoupled {
		list = "lins."
	}
	var parts []layer
	jump := n.g.metadata["jk"]
	if jump != "" {
		layers++ // the linear layer
	}
	for i := range layers - 1 {
		k := strconv.Itoa(i)
		hiddenLayer := chain(n.directed(t, list+k, hidden), n.norm("norms."+k), n.activation())
		if i > 0 && n.g.metadata["residual"] == "yes" {
			hiddenLayer = residual(hiddenLayer)
		}
		parts = append(parts, hiddenLayer)
	}
	if jump != "" {
		return chain(jumps(parts, jump == "max"), n.linear("lin"))
	}
	parts = append(parts, n.directed(t, list+strconv.Itoa(layers-1), classes))
	if decoupled {
		parts = append(parts, n.propagation(t, layers, n.g.edges(n.g.metadata["direction"] == "out")))
	}
	return chain(parts...)
}

// jumps applies layers of one width one after the other. Its output is the outputs of all, side by side or the
// largest of each entry.
func jumps(parts []layer, largest bool) layer {
	outputs := func(x *Matrix) (xs []*Matrix) {
		for _, p := range parts {
			x = p.forward(x)
			xs = append(xs, x)
		}
		return xs
	}
	// from returns which layer's entry is in column c of row i, and its column.
	from := func(xs []*Matrix, i, c int) (layer, column int) {
		if !largest {
			return c / xs[0].Cols, c % xs[0].Cols
		}
		for k := range xs {
			if xs[k].At(i, c) > xs[layer].At(i, c) {
				layer = k
			}
		}
		return layer, c
	}
	return layer{
		func(x *Matrix) *Matrix {
			xs := outputs(x)
			columns := xs[0].Cols
			if !largest {
				columns *= len(xs)
			}
			z := New(x.Rows, columns)
			for i := range z.Rows {
				for c := range z.Cols {
					k, column := from(xs, i, c)
					z.Set(i, c, xs[k].At(i, column))
				}
			}
			return z
		},
		func(x, dz *Matrix) *Matrix {
			xs := outputs(x)
			dx := New(xs[0].Rows, xs[0].Cols)
			for k := len(parts) - 1; k >= 0; k-- {
				for i := range dz.Rows {
					for c := range dz.Cols {
						if of, column := from(xs, i, c); of == k {
							dx.Add(i, column, dz.At(i, c))
						}
					}
				}
				in := x
				if k > 0 {
					in = xs[k-1]
				}
				dx = parts[k].backward(in, dx)
			}
			return dx
		},
	}
}

// residual adds what a layer makes of its input to it.
func residual(l layer) layer { return sum(chain(), l) }

// frame is a linear map to the hidden width, blocks, and a linear map to the classes.
func (n *network) frame(t *testing.T, layers, hidden int) layer {
	t.Helper()
	var parts []layer
	switch n.g.metadata["model"] {
	case "gcnii":
		return chain(n.linear("lins.0"), n.activation(), n.gcnii(t, layers), n.linear("lins.1"))
	case "resgcn":
		parts = append(parts, n.linear("node_encoder"), n.directed(t, "layers.0.conv", hidden))
		for i := 1; i < layers; i++ {
			site := fmt.Sprintf("layers.%d.", i)
			parts = append(parts, residual(chain(n.norm(site+"norm"), n.activation(), n.directed(t, site+"conv", hidden))))
		}
		return chain(append(parts, n.norm("layers.0.norm"), n.activation(), n.linear("lin"))...)
	}
	parts = append(parts, n.linear("encoder"), n.activation())
	for i := range layers {
		lins := fmt.Sprintf("feed_forwards.%d.lins.", i)
		block := []layer{n.norm(fmt.Sprintf("norms.%d", i)), n.directed(t, fmt.Sprintf("convs.%d", i), hidden)}
		if n.g.metadata["model"] == "gat" {
			block = append(block, n.linear(lins+"0"))
		}
		parts = append(parts, residual(chain(append(block, n.activation(), n.linear(lins+"1"))...)))
	}
	return chain(append(parts, n.norm(fmt.Sprintf("norms.%d", layers)), n.linear("decoder"))...)
}

// gcnii is the layers of a GCNII as a function of the first embeddings h0:
// x = act(((1−α)·Â·x + α·h0)·((1−β)·I + β·W1)), or with a weight W2 of its own for h0.
func (n *network) gcnii(t *testing.T, layers int) layer {
	t.Helper()
	alpha, theta, act := n.number(t, "alpha"), n.number(t, "theta"), n.activation()
	spread := n.aggregate(gcn(n.g.edges(n.g.metadata["direction"] == "out")))
	times := func(a float64, m *Matrix) *Matrix { return m.Map(func(v float64) float64 { return a * v }) }
	mixed := func(i int, weight string) layer {
		name, beta := fmt.Sprintf("convs.%d.%s", i, weight), math.Log(theta/float64(i+1)+1)
		w := n.g.floats["param."+name]
		return layer{
			func(x *Matrix) *Matrix { return times(1-beta, x).Plus(times(beta, MatMul(x, w))) },
			func(x, d *Matrix) *Matrix {
				dx, dw := MatMulBackward(x, w, d)
				grad := times(beta, dw).Data
				for k, v := range n.grads[name] { // of the other term that has this weight
					grad[k] += v
				}
				n.grads[name] = grad
				return times(1-beta, d).Plus(times(beta, dx))
			},
		}
	}
	second := map[string]string{"True": "weight1", "False": "weight2"}[n.g.metadata["shared_weights"]]
	inputs := func(h0 *Matrix) (x, z []*Matrix) {
		x = []*Matrix{h0}
		for i := range layers {
			z = append(z, mixed(i, "weight1").forward(times(1-alpha, spread.forward(x[i]))).Plus(mixed(i, second).forward(times(alpha, h0))))
			x = append(x, act.forward(z[i]))
		}
		return x, z
	}
	return layer{
		func(h0 *Matrix) *Matrix {
			x, _ := inputs(h0)
			return x[layers]
		},
		func(h0, d *Matrix) *Matrix {
			x, z := inputs(h0)
			d0 := New(h0.Rows, h0.Cols)
			for i := layers - 1; i >= 0; i-- {
				d = act.backward(z[i], d)
				d0 = d0.Plus(times(alpha, mixed(i, second).backward(times(alpha, h0), d)))
				d = spread.backward(x[i], times(1-alpha, mixed(i, "weight1").backward(times(1-alpha, spread.forward(x[i])), d)))
			}
			return d0.Plus(d)
		},
	}
}

// chain applies layers one after the other; no layer is the identity.
func chain(layers ...layer) layer {
	forward := func(x *Matrix, count int) *Matrix {
		for _, l := range layers[:count] {
			x = l.forward(x)
		}
		return x
	}
	return layer{
		func(x *Matrix) *Matrix { return forward(x, len(layers)) },
		func(x, d *Matrix) *Matrix {
			for k, l := range slices.Backward(layers) {
				d = l.backward(forward(x, k), d)
			}
			return d
		},
	}
}

// sum applies both layers to the same input and adds.
func sum(p, q layer) layer {
	return layer{
		func(x *Matrix) *Matrix { return p.forward(x).Plus(q.forward(x)) },
		func(x, d *Matrix) *Matrix { return p.backward(x, d).Plus(q.backward(x, d)) },
	}
}

// directed is the convolution of the file's direction. Both is PyG's DirGNNConv: half of each direction's
// convolution, without added self loops, plus a linear map of the vertex itself.
func (n *network) directed(t *testing.T, site string, out int) layer {
	if n.g.metadata["direction"] != "both" {
		return n.conv(t, site, out, n.g.edges(n.g.metadata["direction"] == "out"))
	}
	in, reversed := n.g.edges(false), n.g.edges(true)
	in.loops, reversed.loops = false, false
	half := Activation{Value: func(x float64) float64 { return x / 2 }, Derivative: func(float64) float64 { return 0.5 }}
	ways := sum(n.conv(t, site+".conv_in", out, in), n.conv(t, site+".conv_out", out, reversed))
	return sum(chain(ways, entrywise(half)), n.linear(site+".lin"))
}

func (n *network) conv(t *testing.T, site string, out int, r relation) layer {
	vertices, model := len(r.indptr)-1, n.g.metadata["model"]
	if n.decoupled() {
		model = "mlp"
	}
	switch model {
	case "mlp":
		return n.linear(site)
	case "gcn":
		return chain(n.linear(site+".lin"), n.aggregate(gcn(r)), n.bias(site+".bias"))
	case "sgc":
		var rounds []layer
		for range int(n.number(t, "rounds")) {
			rounds = append(rounds, n.aggregate(gcn(r)))
		}
		return chain(append(rounds, n.linear(site+".lin"))...)
	case "sage", "resgcn":
		a := &Aggregation{Indptr: r.indptr, Indices: r.indices, RowScale: make([]float64, vertices)}
		for i := range vertices {
			a.RowScale[i] = 1
			if n.g.metadata["aggr"] != "sum" {
				a.RowScale[i] /= math.Max(1, float64(r.indptr[i+1]-r.indptr[i]))
			}
		}
		neighbours := n.aggregate(a)
		if n.g.metadata["aggr"] == "max" {
			neighbours = maximum(r)
		}
		neighbours = chain(neighbours, n.linear(site+".lin_l"))
		if n.g.metadata["direction"] == "both" {
			return neighbours
		}
		return sum(neighbours, n.linear(site+".lin_r"))
	case "gin", "gine":
		a := &Aggregation{Indptr: r.indptr, Indices: r.indices, Self: make([]float64, vertices)}
		for i := range a.Self {
			a.Self[i] = 1 + n.g.vector("param." + site + ".eps")[0]
		}
		sums := n.aggregate(a)
		if model == "gine" {
			sums = sum(n.edgeMessages(site, r), n.aggregate(&Aggregation{Indptr: make([]int64, vertices+1), Self: a.Self}))
		}
		return chain(sums, n.linear(site+".nn.lins.0"), n.norm(site+".nn.norms.0"), n.activation(), n.linear(site+".nn.lins.1"))
	case "pna":
		return n.pna(site, r)
	case "transformer":
		if n.g.metadata["direction"] == "both" {
			return n.attention(site, out, r)
		}
		return sum(n.attention(site, out, r), n.linear(site+".lin_skip"))
	case "gat", "gatv2":
		return n.attention(site, out, r)
	default:
		t.Fatalf("no model %q", model)
		return layer{}
	}
}

// pna is PNAConv: a message of both ends for each edge, four aggregations, three scalers, two linear maps.
func (n *network) pna(site string, r relation) layer {
	pre, post, lin := n.linear(site+".pre_nns.0.0"), n.linear(site+".post_nns.0.0"), n.linear(site+".lin")
	delta := n.g.vector("param." + site + ".aggr_module.avg_deg_log")[0]
	each := func(f func(i, j, k int)) {
		for i := range len(r.indptr) - 1 {
			for k := r.indptr[i]; k < r.indptr[i+1]; k++ {
				f(i, int(r.indices[k]), int(k))
			}
		}
	}
	degree := func(i int) float64 { return float64(r.indptr[i+1] - r.indptr[i]) }
	scalers := func(i int) []float64 {
		return []float64{1, math.Log(degree(i)+1) / delta, delta / math.Log(math.Max(1, degree(i))+1)}
	}
	ends := func(x *Matrix) *Matrix { // [x_i, x_j] of each edge
		z := New(len(r.indices), 2*x.Cols)
		each(func(i, j, k int) {
			copy(row(z, k), row(x, i))
			copy(row(z, k)[x.Cols:], row(x, j))
		})
		return z
	}
	// aggregated has mean, min, max and std of the messages, and the edges with the smallest and the largest
	aggregated := func(m *Matrix, vertices int) (a *Matrix, least, most []int) {
		f := m.Cols
		a, least, most = New(vertices, 4*f), make([]int, vertices*f), make([]int, vertices*f)
		each(func(i, _, k int) {
			for c := range f {
				v, at := m.At(k, c), i*f+c
				a.Add(i, c, v/degree(i))
				a.Add(i, 3*f+c, v*v/degree(i))
				if first := int64(k) == r.indptr[i]; first || v < m.At(least[at], c) {
					least[at] = k
				}
				if first := int64(k) == r.indptr[i]; first || v > m.At(most[at], c) {
					most[at] = k
				}
			}
		})
		for i := range vertices {
			for c := range f {
				if degree(i) == 0 {
					continue
				}
				a.Set(i, f+c, m.At(least[i*f+c], c))
				a.Set(i, 2*f+c, m.At(most[i*f+c], c))
				variance := a.At(i, 3*f+c) - a.At(i, c)*a.At(i, c)
				a.Set(i, 3*f+c, 0)
				if variance > 1e-5 {
					a.Set(i, 3*f+c, math.Sqrt(variance))
				}
			}
		}
		return a, least, most
	}
	scaled := func(x, a *Matrix) *Matrix {
		z := New(x.Rows, x.Cols+3*a.Cols)
		for i := range x.Rows {
			copy(row(z, i), row(x, i))
			for s, scale := range scalers(i) {
				for c := range a.Cols {
					z.Set(i, x.Cols+s*a.Cols+c, scale*a.At(i, c))
				}
			}
		}
		return z
	}
	return layer{
		func(x *Matrix) *Matrix {
			a, _, _ := aggregated(pre.forward(ends(x)), x.Rows)
			return lin.forward(post.forward(scaled(x, a)))
		},
		func(x, dz *Matrix) *Matrix {
			f, m := x.Cols, pre.forward(ends(x))
			a, least, most := aggregated(m, x.Rows)
			d := post.backward(scaled(x, a), lin.backward(post.forward(scaled(x, a)), dz))
			dx, da, dm := New(x.Rows, f), New(x.Rows, 4*f), New(m.Rows, f)
			for i := range x.Rows {
				copy(row(dx, i), row(d, i))
				for s, scale := range scalers(i) {
					for c := range 4 * f {
						da.Add(i, c, scale*d.At(i, f+4*f*s+c))
					}
				}
			}
			each(func(i, _, k int) {
				for c := range f {
					dm.Add(k, c, da.At(i, c)/degree(i))
					if least[i*f+c] == k {
						dm.Add(k, c, da.At(i, f+c))
					}
					if most[i*f+c] == k {
						dm.Add(k, c, da.At(i, 2*f+c))
					}
					if std := a.At(i, 3*f+c); std > 0 {
						dm.Add(k, c, da.At(i, 3*f+c)*(m.At(k, c)-a.At(i, c))/(std*degree(i)))
					}
				}
			})
			de := pre.backward(ends(x), dm)
			each(func(i, j, k int) {
				for c := range f {
					dx.Add(i, c, de.At(k, c))
					dx.Add(j, c, de.At(k, f+c))
				}
			})
			return dx
		},
	}
}

// edgeMessages is the sum of GINE's messages, ReLU(x_j + W·e_ji + b).
func (n *network) edgeMessages(site string, r relation) layer {
	linear := n.linear(site + ".lin")
	gathered := func(x *Matrix) *Matrix { // x_j + W·e_ji + b of each edge
		z := linear.forward(r.features)
		for k, j := range r.indices {
			for c := range x.Cols {
				z.Data[k*x.Cols+c] += x.Data[int(j)*x.Cols+c]
			}
		}
		return z
	}
	each := func(f func(i, k int)) {
		for i := range len(r.indptr) - 1 {
			for k := r.indptr[i]; k < r.indptr[i+1]; k++ {
				f(i, int(k))
			}
		}
	}
	return layer{
		func(x *Matrix) *Matrix {
			m, z := gathered(x), New(x.Rows, x.Cols)
			each(func(i, k int) {
				for c := range x.Cols {
					z.Data[i*x.Cols+c] += math.Max(0, m.Data[k*x.Cols+c])
				}
			})
			return z
		},
		func(x, dz *Matrix) *Matrix {
			m, dx := gathered(x), New(x.Rows, x.Cols)
			dm := New(m.Rows, m.Cols)
			each(func(i, k int) {
				for c := range x.Cols {
					if at := k*x.Cols + c; m.Data[at] > 0 {
						dm.Data[at] = dz.Data[i*x.Cols+c]
						dx.Data[int(r.indices[k])*x.Cols+c] += dm.Data[at]
					}
				}
			})
			linear.backward(r.features, dm)
			return dx
		},
	}
}

// propagation is the rounds of a decoupled model: h ← (1−a)·step(h) + a·z, from h = z.
func (n *network) propagation(t *testing.T, rounds int, r relation) layer {
	t.Helper()
	var k Rounds
	if n.g.metadata["model"] == "appnp" {
		k = Rounds{int(n.number(t, "rounds")), n.number(t, "alpha")}
	} else {
		k = Rounds{rounds, n.number(t, "teleport")}
	}
	return layer{
		func(z *Matrix) *Matrix { return k.Forward(z, n.round(t, z, r).forward) },
		func(z, d *Matrix) *Matrix {
			step := n.round(t, z, r)
			return k.Backward(z, d, step.forward, step.backward).Plus(step.finish())
		},
	}
}

// round is one aggregation of a decoupled model for the embeddings z. After all rounds have run backward,
// finish is what z's coefficients give it.
type round struct {
	layer
	finish func() *Matrix
}

func (n *network) round(t *testing.T, z *Matrix, r relation) round {
	t.Helper()
	a := &Aggregation{Indptr: r.indptr, Indices: r.indices, Self: make([]float64, z.Rows)}
	nothing := func() *Matrix { return New(z.Rows, z.Cols) }
	switch model := n.g.metadata["model"]; model {
	case "gcn", "appnp":
		return round{n.aggregate(gcn(r)), nothing}
	case "sage":
		a.RowScale = make([]float64, z.Rows)
		for i := range z.Rows {
			a.Self[i], a.RowScale[i] = 1, 1/float64(r.indptr[i+1]-r.indptr[i]+1)
		}
		return round{n.aggregate(a), nothing}
	case "gin":
		for i := range a.Self {
			a.Self[i] = 1 + n.g.vector("param.propagation.eps")[0]
		}
		return round{n.aggregate(a), nothing}
	case "gat":
		return n.scoredRound(z, r)
	default:
		t.Fatalf("no decoupled model %q", model)
		return round{}
	}
}

// scoredRound is graph attention whose scores are z·aᵀ.
func (n *network) scoredRound(z *Matrix, r relation) round {
	a := &Attention{Heads: 1, Slope: 0.2, SelfEdge: true}
	a.Indptr, a.Indices = WithoutLoops(r.indptr, r.indices)
	vector := func(name string) *Matrix { return &Matrix{1, classes, n.g.vector("param.propagation." + name)} }
	source, target := MatMulTransB(z, vector("att_src")), MatMulTransB(z, vector("att_dst"))
	dSource, dTarget := New(z.Rows, 1), New(z.Rows, 1)
	return round{layer{
		func(h *Matrix) *Matrix { return Scored(a, h, source, target) },
		func(h, d *Matrix) *Matrix {
			dh, ds, dt := ScoredBackward(a, h, source, target, d)
			dSource, dTarget = dSource.Plus(ds), dTarget.Plus(dt)
			return dh
		},
	}, func() *Matrix {
		if n.g.metadata["attention_gradient"] == "stop" {
			dSource, dTarget = New(z.Rows, 1), New(z.Rows, 1)
		}
		n.grads["propagation.att_src"], n.grads["propagation.att_dst"] = MatMulTransA(dSource, z).Data, MatMulTransA(dTarget, z).Data
		return MatMul(dSource, vector("att_src")).Plus(MatMul(dTarget, vector("att_dst")))
	}}
}

// gcn makes PyG's normalised adjacency: in-degrees on both sides, one loop per vertex where loops are added.
func gcn(r relation) *Aggregation {
	vertices := len(r.indptr) - 1
	a := &Aggregation{
		Indptr: []int64{0}, RowScale: make([]float64, vertices), ColScale: make([]float64, vertices),
		Self: make([]float64, vertices),
	}
	for i := range vertices {
		loop, degree := 0.0, 0.0
		if r.loops {
			loop = 1
		}
		for e := r.indptr[i]; e < r.indptr[i+1]; e++ {
			w := or(r.weights, int(e), 1)
			if r.loops && int(r.indices[e]) == i {
				loop = w
				continue
			}
			a.Indices, a.Weights = append(a.Indices, r.indices[e]), append(a.Weights, w)
			degree += w
		}
		a.Indptr = append(a.Indptr, int64(len(a.Indices)))
		if degree+loop > 0 {
			a.RowScale[i] = 1 / math.Sqrt(degree+loop)
		}
		a.ColScale[i] = a.RowScale[i]
		a.Self[i] = loop * a.ColScale[i]
	}
	return a
}

func maximum(r relation) layer {
	return layer{
		func(x *Matrix) *Matrix {
			z, _ := Max(r.indptr, r.indices, x)
			return z
		},
		func(x, dz *Matrix) *Matrix {
			_, arg := Max(r.indptr, r.indices, x)
			return MaxBackward(x.Rows, arg, dz)
		},
	}
}

// attention is GATConv or GATv2Conv; the last layer averages its heads.
func (n *network) attention(site string, out int, r relation) layer {
	heads, _ := strconv.Atoi(n.g.metadata["heads"])
	if out == classes {
		heads, _ = strconv.Atoi(n.g.metadata["output_heads"])
	}
	a := &Attention{Indptr: r.indptr, Indices: r.indices, Heads: heads, Slope: 0.2, Features: r.features}
	if r.loops && n.g.metadata["model"] != "transformer" {
		a = a.WithOneLoop()
	}
	average := chain() // hidden layers keep their heads side by side
	if out == classes {
		mean := New(heads*out, out)
		for c := range heads * out {
			mean.Set(c, c%out, 1/float64(heads))
		}
		average = layer{
			func(o *Matrix) *Matrix { return MatMul(o, mean) },
			func(_, d *Matrix) *Matrix { return MatMulTransB(d, mean) },
		}
	}
	param := func(name string) []float64 { return n.g.vector("param." + site + "." + name) }
	weight := n.g.floats["param."+site+".lin_edge.weight"] // of the edges' features; nil: none
	var attend layer
	switch n.g.metadata["model"] {
	case "transformer":
		return chain(n.dotProducts(site, a, transposed(weight)), average)
	case "gat":
		attend = chain(n.linear(site+".lin"), layer{
			func(z *Matrix) *Matrix {
				o, _ := GAT(a, z, param("att_src"), param("att_dst"), edgeVector(weight, param("att_edge"), heads))
				return o
			},
			func(z, d *Matrix) *Matrix {
				dz, daSrc, daDst, dv := GATBackward(a, z, param("att_src"), param("att_dst"), edgeVector(weight, param("att_edge"), heads), d)
				n.grads[site+".att_src"], n.grads[site+".att_dst"] = daSrc, daDst
				if weight != nil {
					dw, da := edgeVectorBackward(weight, param("att_edge"), dv)
					n.grads[site+".lin_edge.weight"], n.grads[site+".att_edge"] = dw.Data, da
				}
				return dz
			},
		})
	default:
		left, right := n.linear(site+".lin_l"), n.linear(site+".lin_r")
		attend = layer{
			func(x *Matrix) *Matrix {
				o, _ := GATv2(a, left.forward(x), right.forward(x), param("att"), transposed(weight))
				return o
			},
			func(x, d *Matrix) *Matrix {
				dzl, dzr, datt, dw := GATv2Backward(a, left.forward(x), right.forward(x), param("att"), transposed(weight), d)
				n.grads[site+".att"] = datt
				if weight != nil {
					n.grads[site+".lin_edge.weight"] = transposed(dw).Data
				}
				return left.backward(x, dzl).Plus(right.backward(x, dzr))
			},
		}
	}
	return chain(attend, average, n.bias(site+".bias"))
}

// dotProducts is the attention of TransformerConv, without what a vertex gives itself.
func (n *network) dotProducts(site string, a *Attention, weight *Matrix) layer {
	query, key, value := n.linear(site+".lin_query"), n.linear(site+".lin_key"), n.linear(site+".lin_value")
	scaled := func(q *Matrix) *Matrix {
		root := math.Sqrt(float64(q.Cols / a.Heads))
		return q.Map(func(x float64) float64 { return x / root })
	}
	return layer{
		func(x *Matrix) *Matrix {
			o, _ := DotProduct(a, scaled(query.forward(x)), key.forward(x), value.forward(x), weight)
			return o
		},
		func(x, d *Matrix) *Matrix {
			dq, dk, dv, dw := DotProductBackward(a, scaled(query.forward(x)), key.forward(x), value.forward(x), weight, d)
			if weight != nil {
				n.grads[site+".lin_edge.weight"] = transposed(dw).Data
			}
			return query.backward(x, scaled(dq)).Plus(key.backward(x, dk)).Plus(value.backward(x, dv))
		},
	}
}

// edgeVector is GAT's product of the weight of edges' features, H·C × features, with their attention vector,
// head by head: features × H; nil for nil.
func edgeVector(weight *Matrix, att []float64, heads int) *Matrix {
	if weight == nil {
		return nil
	}
	v, width := New(weight.Cols, heads), weight.Rows/heads
	for c, a := range att {
		for f := range weight.Cols {
			v.Add(f, c/width, a*weight.At(c, f))
		}
	}
	return v
}

// edgeVectorBackward returns the gradients of both factors.
func edgeVectorBackward(weight *Matrix, att []float64, dv *Matrix) (dw *Matrix, da []float64) {
	dw, da = New(weight.Rows, weight.Cols), make([]float64, len(att))
	width := weight.Rows / dv.Cols
	for c, a := range att {
		for f := range weight.Cols {
			dw.Add(c, f, a*dv.At(f, c/width))
			da[c] += weight.At(c, f) * dv.At(f, c/width)
		}
	}
	return dw, da
}

// transposed is the transpose of a matrix; nil for nil.
func transposed(m *Matrix) *Matrix {
	if m == nil {
		return nil
	}
	z := New(m.Cols, m.Rows)
	for i := range m.Rows {
		for c := range m.Cols {
			z.Set(c, i, m.At(i, c))
		}
	}
	return z
}

func (n *network) activation() layer {
	return entrywise(map[string]Activation{"relu": ReLU, "elu": ELU, "gelu": GELU}[n.g.metadata["act"]])
}

func entrywise(f Activation) layer {
	return layer{
		func(x *Matrix) *Matrix { return Activate(f, x) },
		func(x, d *Matrix) *Matrix { return ActivateBackward(f, x, d) },
	}
}

func (n *network) norm(site string) layer {
	module := site
	if n.g.metadata["norm"] == "batch" {
		module += ".module"
	}
	param := func(name string) []float64 { return n.g.vector("param." + module + "." + name) }
	gamma, beta, mean, variance := param("weight"), param("bias"), param("running_mean"), param("running_var")
	file := func(dx *Matrix, dgamma, dbeta []float64) *Matrix {
		n.grads[module+".weight"], n.grads[module+".bias"] = dgamma, dbeta
		return dx
	}
	switch n.g.metadata["norm"] {
	case "graph": // the same in training and evaluation
		alpha := param("mean_scale")
		return layer{
			func(x *Matrix) *Matrix { return GraphNorm(x, gamma, beta, alpha) },
			func(x, d *Matrix) *Matrix {
				dx, dgamma, dbeta, dalpha := GraphNormBackward(x, gamma, alpha, d)
				n.grads[module+".mean_scale"] = dalpha
				return file(dx, dgamma, dbeta)
			},
		}
	case "pair":
		return layer{PairNorm, PairNormBackward}
	}
	switch n.g.metadata["norm"] + " " + n.g.metadata["mode"] {
	case "batch train":
		return layer{
			func(x *Matrix) *Matrix {
				y, m, v := BatchNorm(x, gamma, beta, mean, variance)
				n.after[module+".running_mean"], n.after[module+".running_var"] = m, v
				return y
			},
			func(x, d *Matrix) *Matrix { return file(BatchNormBackward(x, gamma, d)) },
		}
	case "batch eval":
		return layer{
			func(x *Matrix) *Matrix { return BatchNormEval(x, gamma, beta, mean, variance) },
			func(x, d *Matrix) *Matrix { return file(BatchNormEvalBackward(x, gamma, mean, variance, d)) },
		}
	case "layer train":
		return layer{
			func(x *Matrix) *Matrix { return LayerNorm(x, gamma, beta) },
			func(x, d *Matrix) *Matrix { return file(LayerNormBackward(x, gamma, d)) },
		}
	}
	return chain()
}

const classes = 5

// Logits, loss, every gradient and the running statistics of PyG's models, composed of this package's
// functions.
func TestPyGModels(t *testing.T) {
	files, err := filepath.Glob("../../gnn/testdata/*.safetensors")
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden files: %v", err)
	}
	for _, path := range files {
		g := readGolden(t, path)
		t.Run(strings.TrimSuffix(filepath.Base(path), ".safetensors"), func(t *testing.T) {
			n := &network{g: g, grads: map[string][]float64{}, after: map[string][]float64{}}
			layers, _ := strconv.Atoi(g.metadata["layers"])
			hidden, _ := strconv.Atoi(g.metadata["hidden"])
			model := n.plain
			if g.metadata["blocks"] != "" || g.metadata["model"] == "gcnii" || g.metadata["model"] == "resgcn" {
				model = n.frame
			}
			m := model(t, layers, hidden)

			x, train := g.floats["x"], g.ints["train"]
			logits := m.forward(x)
			wantClose(t, "logits", logits.Data, g.floats["logits"].Data)
			var loss float64
			var dlogits *Matrix
			if g.metadata["loss"] == "ce" {
				loss, dlogits = CrossEntropy(logits, g.ints["labels"], train), CrossEntropyBackward(logits, g.ints["labels"], train)
			} else {
				targets := g.floats["labels"]
				loss, dlogits = BCEWithLogits(logits, targets, train), BCEWithLogitsBackward(logits, targets, train)
			}
			wantClose(t, "loss", []float64{loss}, g.vector("loss"))
			n.grads["x"] = m.backward(x, dlogits).Data
			for _, name := range slices.Sorted(maps.Keys(g.floats)) {
				if param, ok := strings.CutPrefix(name, "grad."); ok {
					wantClose(t, name, n.grads[param], g.vector(name))
				}
				if buffer, ok := strings.CutPrefix(name, "after."); ok && n.after[buffer] != nil {
					wantClose(t, name, n.after[buffer], g.vector(name))
				}
			}
		})
	}
}

// Five steps of torch.optim's optimizers, with clipping where the file says so.
func TestPyTorchOptimizers(t *testing.T) {
	g := readGolden(t, "../../optim/testdata/golden.safetensors")
	for _, name := range slices.Sorted(maps.Keys(g.metadata)) {
		var s struct {
			LR       float64 `json:"lr"`
			Momentum float64 `json:"momentum"`
			Decay    float64 `json:"weight_decay"`
			Clip     float64 `json:"clip"`
		}
		if !strings.HasPrefix(g.metadata[name], "{") {
			continue
		}
		if err := json.Unmarshal([]byte(g.metadata[name]), &s); err != nil {
			t.Fatal(err)
		}
		params := []string{"weight", "bias"}
		p, m, v := map[string][]float64{}, map[string][]float64{}, map[string][]float64{}
		for _, k := range params {
			p[k] = slices.Clone(g.vector("start." + k))
			m[k], v[k] = make([]float64, len(p[k])), make([]float64, len(p[k]))
		}
		for step := 1; step <= 5; step++ {
			grad := map[string][]float64{}
			for _, k := range params {
				grad[k] = slices.Clone(g.vector("grad." + strconv.Itoa(step) + "." + k))
			}
			if s.Clip > 0 {
				norm := ClipNorm([][]float64{grad["weight"], grad["bias"]}, s.Clip)
				wantClose(t, name+".norms", []float64{norm}, g.vector(name + ".norms")[step-1:step])
			}
			for _, k := range params {
				decay := s.Decay
				if k == "bias" {
					decay = 0
				}
				adam := AdamSettings{Rate: s.LR, Beta1: 0.9, Beta2: 0.999, Epsilon: 1e-8, WeightDecay: decay}
				switch name, _, _ := strings.Cut(name, "-"); name {
				case "adam":
					Adam(p[k], grad[k], m[k], v[k], step, adam)
				case "adamw":
					AdamW(p[k], grad[k], m[k], v[k], step, adam)
				case "sgd":
					SGD(p[k], grad[k], m[k], s.LR, s.Momentum, decay)
				}
				key := name + "." + strconv.Itoa(step) + "." + k
				wantClose(t, key, p[k], g.vector(key))
			}
		}
	}
}
