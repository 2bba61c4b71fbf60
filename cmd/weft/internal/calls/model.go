package calls

import (
	"maps"
	"math"
	"slices"

	"weft/graph"
	"weft/internal/atomicfile"
	"weft/internal/refusal"
	"weft/nn"
	"weft/tensor"
	"weft/train"
	"weft/train/setting"
	"weft/train/worker"
)

// model is a model on a graph.
type model struct {
	*train.Passes
	opened   *divided
	memory   *netMemory
	settings *setting.Resolved
	all      []int // vertices of each type, with those of other processes
	lacking  []train.Lacking
	// relations are, by output, the relation whose edges' rows it has; nil: it has rows of vertices.
	relations []*graph.Relation
	floats    []named // parameters, followed by buffers
	trained   int     // how many of floats are parameters
	counters  []string
}

// describe tells which tensors the model has, and for how many edges of each relation values are given and
// got.
func (m *model) describe(a *answer) {
	state, parameters := m.State()
	for _, name := range parameters {
		m.floats = append(m.floats, named{name, state[name].Shape})
	}
	m.trained = len(parameters)
	for _, name := range slices.Sorted(maps.Keys(state)) {
		switch {
		case slices.Contains(parameters, name):
		case state[name].Int64 != nil:
			m.counters = append(m.counters, name)
		default:
			m.floats = append(m.floats, named{name, state[name].Shape})
		}
	}
	a.Edges = m.EdgeCounts
	a.Parameters, a.Buffers, a.Counters = m.floats[:m.trained], m.floats[m.trained:], m.counters
}

// readRelations notes of which relations the outputs have rows.
func (m *model) readRelations() error {
	for k, out := range m.Outputs {
		if !out.Edges {
			continue
		}
		g, err := m.opened.Graph()
		if err != nil {
			return err
		}
		if m.relations == nil {
			m.relations = make([]*graph.Relation, len(m.Outputs))
		}
		if m.Processes == 1 {
			m.EdgeCounts = nil
			for k := range g.Relations {
				m.EdgeCounts = append(m.EdgeCounts, len(g.Relations[k].Sources))
			}
		}
		m.relations[k] = &g.Relations[out.Type]
		if n := len(m.relations[k].Sources); n > math.MaxInt32 {
			return refusal.Errorf("forward returns rows of %d edges: outputs have rows of 2³¹ − 1 at most", n)
		}
	}
	return nil
}

// tensors are some of the model's floats, which stand in memory.
func (s *server) tensors(entries []named, memory int) (nn.State, error) {
	total := 0
	for _, entry := range entries {
		total += entry.size()
	}
	values, err := s.numbers(memory, total)
	if err != nil {
		return nil, err
	}
	state := nn.State{}
	for _, entry := range entries {
		n := entry.size()
		state[entry.Name] = nn.Tensor{Shape: entry.Shape, Float32: values[:n:n]}
		values = values[n:]
	}
	return state, nil
}

// blocks are the blocks of the outputs in memory, by sample and by output.
func (s *server) blocks(m *model, r *passRequest) (samples [][][]worker.ColumnBlock, err error) {
	for k, sub := range r.Rows {
		if slices.ContainsFunc(r.Rows[:k], func(before rows) bool { return before.Type == sub.Type }) ||
			sub.Type < 0 || sub.Type >= len(m.Types) || sub.Listed < 1 ||
			sub.Listed > m.Types[sub.Type].Vertices {
			return nil, refusal.Errorf("rows: %d are listed of vertex type %d: twice, or it has not so many", sub.Listed,
				sub.Type)
		}
	}
	for _, in := range r.Inputs {
		if in.Sample < 0 || in.Sample >= m.Samples() {
			return nil, refusal.Errorf("an input of sample %d of %d", in.Sample, m.Samples())
		}
	}
	total, columns := 0, make([]int, len(m.Outputs))
	for _, b := range r.Blocks {
		k := m.outputOf(b)
		if k < 0 || b.Columns < 0 || columns[k]+b.Columns > m.Outputs[k].Columns {
			return nil, refusal.Errorf("there are no %d columns of an output of type %d, edges: %t", b.Columns, b.Type,
				b.Edges)
		}
		columns[k] += b.Columns
		total += m.size(b, r)
	}
	for k, out := range m.Outputs {
		if columns[k] != out.Columns {
			return nil, refusal.Errorf("blocks of %d columns of an output that has %d", columns[k], out.Columns)
		}
	}
	values, err := s.numbers(r.Output, m.Samples()*total)
	if err != nil {
		return nil, err
	}
	for range m.Samples() {
		blocks := make([][]worker.ColumnBlock, len(m.Outputs))
		for _, b := range r.Blocks {
			k, n := m.outputOf(b), m.size(b, r)
			block := worker.ColumnBlock{
				Columns: b.Columns, Whole: b.Whole, Everywhere: b.Everywhere, Values: values[:n],
			}
			blocks[k], values = append(blocks[k], block), values[n:]
		}
		samples = append(samples, blocks)
	}
	return samples, nil
}

// outputOf is the number of the output to which a block belongs; −1: there is none.
func (m *model) outputOf(b block) int {
	return slices.IndexFunc(m.Outputs, func(out train.Output) bool {
		return out.Type == b.Type && out.Edges == b.Edges
	})
}

// size is the number of a block's values in a request.
func (m *model) size(b block, r *passRequest) int {
	switch {
	case b.Whole:
		return b.Columns
	case b.Edges:
		return m.EdgeCounts[b.Type] * b.Columns
	case b.Everywhere:
		return m.all[b.Type] * b.Columns
	}
	for _, sub := range r.Rows {
		if sub.Type == b.Type {
			return sub.Listed * b.Columns
		}
	}
	return m.Types[b.Type].Vertices * b.Columns
}

// rows are, by type, the vertices whose rows are asked for, as in worker.Forward.
func (s *server) rows(m *model, r *passRequest) (all [][]int32, err error) {
	if len(r.Rows) == 0 {
		return nil, nil
	}
	all = make([][]int32, len(m.Types))
	for _, sub := range r.Rows {
		list, err := s.integers(sub.Memory, sub.Listed)
		if err != nil {
			return nil, err
		}
		list = slices.Clone(list)
		for k, v := range list {
			if v < 0 || int(v) >= m.Types[sub.Type].Vertices || k > 0 && v <= list[k-1] {
				return nil, refusal.Errorf("rows: entry %d, vertex %d, is none of %d, or not above the one before", k,
					v, m.Types[sub.Type].Vertices)
			}
		}
		all[sub.Type] = list
	}
	return all, nil
}

// trace records the passes from now on. If it has recorded before, it writes what this model and others have
// recorded.
func (s *server) trace(m *model, r *traceRequest) (a answer, err error) {
	if r.Path == "" {
		return a, m.StartTrace()
	}
	recorded, err := m.StopTrace()
	if err != nil {
		return a, err
	}
	first := recorded != nil // only the first process writes what all have done
	for _, number := range r.Others {
		other := s.models[number]
		if other == nil || other.opened != m.opened {
			return a, refusal.Errorf("there is no model %d of the same graph", number)
		}
		more, err := other.StopTrace()
		if err != nil {
			return a, err
		}
		if first {
			recorded.Add(more)
		}
	}
	if !first {
		return a, nil
	}
	job := m.opened.Job
	recorded.About = map[string]string{"dataset": job.Dataset, "parallel": job.Options.Parallel}
	return a, atomicfile.Write(r.Path, recorded.Write)
}

// forward computes a pass.
func (s *server) forward(m *model, r *forwardRequest) (a answer, err error) {
	each, err := s.forwardOf(m, r)
	if err != nil {
		return a, m.Refuse(err)
	}
	if s.last != nil && s.last != m {
		_ = s.last.trim(m) // if it fails, the model's next request says so
	}
	s.last = m
	return answer{Counts: r.Counts}, m.Forward(each...)
}

// forwardOf reads the forward pass of each sample.
func (s *server) forwardOf(m *model, r *forwardRequest) (each []worker.Forward, err error) {
	if len(r.Counts) != len(m.counters) {
		return nil, refusal.Errorf("%d counts for a model of %d", len(r.Counts), len(m.counters))
	}
	f := worker.Forward{
		Pass: r.Pass, Seeds: r.Seeds, Training: r.Training, Recording: r.Recording, Relations: m.relations,
	}
	if f.Values, err = s.tensors(m.floats, r.Values); err != nil {
		return nil, err
	}
	for k, name := range m.counters {
		f.Values[name] = nn.Tensor{Shape: []int{}, Int64: r.Counts[k : k+1]}
	}
	samples, err := s.blocks(m, &r.passRequest)
	if err != nil {
		return nil, err
	}
	if f.Rows, err = s.rows(m, &r.passRequest); err != nil {
		return nil, err
	}
	for k, outputs := range samples {
		f.Outputs = outputs
		if f.Features, f.Edges, err = s.inputsOf(m).read(r.inputsOf(k)); err != nil {
			return nil, err
		}
		each = append(each, f)
	}
	return each, nil
}

// inputsOf are the inputs of a sample.
func (r *passRequest) inputsOf(sample int) []input {
	return slices.DeleteFunc(slices.Clone(r.Inputs), func(in input) bool { return in.Sample != sample })
}

// backward runs a pass backward.
func (s *server) backward(m *model, r *backwardRequest) (do func() error, err error) {
	b := worker.Backward{Pass: r.Pass, Again: r.Again}
	samples, err := s.blocks(m, &r.passRequest)
	if err != nil {
		return nil, err
	}
	if b.Gradients, err = s.tensors(m.floats[:m.trained], r.Values); err != nil {
		return nil, err
	}
	var each []worker.Backward // by sample
	for k, outputs := range samples {
		b.Outputs = outputs
		if b.Features, b.Edges, err = s.inputsOf(m).read(r.inputsOf(k)); err != nil {
			return nil, err
		}
		each = append(each, b)
	}
	return func() error { return m.Backward(each...) }, nil
}

// usage tells the memory since open, and all else of the last pass that ran backward.
func (s *server) usage(m *model, _ *modelRequest) (a answer, err error) {
	t, err := m.Totals()
	return answer{Usage: &usage{t.Usage, t.LiveBytes, tensor.KindNames(), t.Kinds, t.Layers}}, err
}

// close ends a model.
func (s *server) close(m *model, r *modelRequest) (a answer, err error) {
	delete(s.models, r.Model)
	if s.last == m {
		s.last = nil
	}
	defer s.closed(m.opened)
	return a, m.close()
}

// netMemory is memory that models alike share.
type netMemory struct {
	train.PassMemory
	models int // how many models have it
}

// trim gives memory back that no pass of the model needs, when passes of another model follow, unless they
// share it.
func (m *model) trim(next *model) error {
	if m.memory == next.memory {
		return nil
	}
	return m.Trim()
}

// close ends the model's workers.
func (m *model) close() error {
	err := m.Close()
	m.memory.models--
	m.memory.end()
	return err
}

// end gives the memory back if no model has it.
func (n *netMemory) end() {
	if n.models == 0 {
		n.Close()
	}
}
