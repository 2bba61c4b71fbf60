package planner

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"weft/internal/refusal"
	"weft/parallel/mesh"
	"weft/train/plan"
	"weft/train/setting"
	"weft/train/worker"
)

// search is the search for the fastest of some meshes.
type search struct {
	*Planner
	all     []mesh.Mesh
	left    int                  // how many more steps meshes of several axes may have
	counted map[mesh.Mesh]*Mesh  // meshes that are predicted by counts
	found   map[mesh.Mesh]*Mesh  // meshes that are predicted as exactly as the present step of the search
	refused map[mesh.Mesh]error  // why meshes are not possible
	ofAxes  map[mesh.Mesh]*Rates // rates of two workers on one axis, for meshes that counts predict
}

// say returns the function that reports progress on a mesh. Of the total, number meshes were planned
// before it.
func (s *search) say(grid mesh.Mesh, number, total int) func(what string) {
	return func(what string) {
		s.Progress.Report(fmt.Sprintf("mesh %d of %d, %s: %s", number+1, total,
			cmp.Or(setting.Axes(grid), "one worker"), what), 0, 0)
	}
}

// byCounts predicts all meshes by counts, if counts describe the graph and there is a choice.
func (s *search) byCounts(ctx context.Context) error {
	s.counted, s.found, s.refused = map[mesh.Mesh]*Mesh{}, map[mesh.Mesh]*Mesh{}, map[mesh.Mesh]error{}
	s.ofAxes = map[mesh.Mesh]*Rates{}
	if s.Counts == nil || s.Graph != nil && len(s.all) == 1 {
		return nil
	}
	if err := s.Counts.describe(&s.Options); err != nil {
		if s.Graph == nil {
			return err
		}
		return nil
	}
	return s.countAll(ctx, s.all)
}

// countAll predicts meshes by counts. It replaces earlier predictions.
func (s *search) countAll(ctx context.Context, grids []mesh.Mesh) error {
	for k, grid := range grids {
		err := s.count(ctx, grid, s.say(grid, k, len(grids)))
		if err != nil && (!refusal.Is(err) || ctx.Err() != nil) {
			return err
		}
		s.refused[grid] = err
		if err != nil {
			delete(s.counted, grid)
			delete(s.found, grid)
		}
	}
	return nil
}

// saving are the settings with all choices of what a worker keeps that they leave open. The one that keeps
// most comes first.
func saving(r *setting.Resolved) (all []*setting.Resolved) {
	for _, states := range r.EdgeStates() {
		for _, recompute := range r.Recomputes() {
			with := r.Keeping(states)
			with.Recompute = setting.RecomputeNone
			if recompute {
				with.Recompute = setting.RecomputeBlocks
			}
			all = append(all, with)
		}
	}
	return all
}

// count predicts a mesh by counts.
func (s *search) count(ctx context.Context, grid mesh.Mesh, say func(what string)) error {
	r, err := s.resolve(grid)
	if err != nil {
		return err
	}
	if r.Offload != "" && !r.TakesTurns() {
		return refusal.Errorf("--offload %s: counts do not tell what rests of a pipeline; leave it out, or name "+
			"a graph", r.Offload)
	}
	m := s.newMesh(r)
	m.ByCounts = true
	if err := s.hopeless(m); err != nil {
		return err
	}
	say("planning it by counts")
	for _, with := range saving(r) {
		if m.Plan, err = s.Counts.plan(ctx, with, &s.Machine); err != nil {
			return err
		}
		if card := s.Machine.Card; card != nil {
			m.Plan.Cards = card.forWorker(&r.Options, s.Machine.OnOne(r.Workers))
		}
		if err = s.checkLimits(m); err == nil {
			break
		}
	}
	if err != nil {
		return err
	}
	if card := s.Machine.Card; card != nil {
		m.Rates = card.ratesOn(m)
	} else if m.Rates, err = s.ratesLike(ctx, grid, m.work(), say); err != nil {
		return err
	}
	s.predict(m)
	s.counted[grid], s.found[grid] = m, m
	return nil
}

// hopeless refuses a mesh whose graph alone takes more memory than there is. It needs no plan: a plan of many
// slices in a pipeline takes longest of all meshes.
func (s *search) hopeless(m *Mesh) error {
	least := s.Counts.least(m.Settings)
	m.Plan = plan.Plan{
		Workers: []plan.Worker{{Graph: least}}, GraphBytes: []int64{least}, PeakTensorBytes: []int64{0},
		Stages: make([]worker.Stage, m.Settings.Mesh.Stages),
	}
	if card := s.Machine.Card; card != nil {
		m.Plan.Cards = card.forWorker(&m.Settings.Options, s.Machine.OnOne(m.Settings.Workers))
	}
	return s.checkLimits(m)
}

// ChoosesPartitions reports whether Fewest looks for partitions of a mesh: on cards, if counts tell what a
// run does and the caller names no number of partitions.
func (p *Planner) ChoosesPartitions(grid mesh.Mesh) bool {
	return p.Machine.Card != nil && p.Counts != nil && p.Options.Partitions == 0 && grid.Stages == 1 &&
		p.Counts.tell(&p.Options)
}

// Fewest is the mesh with the fewest partitions of which a part rests in the host's memory, so that the card
// has room by counts. It has the mesh's number of partitions times a power of two, up to most. Numbers with
// which even the features have no room are not planned. It is nil if none fits, or ChoosesPartitions is
// false.
func (p *Planner) Fewest(ctx context.Context, grid mesh.Mesh, most int) (m *Mesh, err error) {
	if !p.ChoosesPartitions(grid) {
		return nil, nil
	}
	in := *p
	first := 2
	in.Options.Partitions, in.Options.Offload = setting.Partitions(first*grid.Partitions), setting.RAM
	r, err := in.resolve(grid)
	switch {
	case refusal.Is(err):
		return nil, nil
	case err != nil:
		return nil, err
	}
	features, card := in.Counts.features(r), in.Machine.Card.forWorker(&r.Options,
		in.Machine.OnOne(r.Workers)).Bytes
	if in.beyondHost(r, features-card) {
		return nil, nil
	}
	for first <= most && int64(first)*card < features { // the features of a partition are one matrix
		first *= 2
	}
	_, err = plan.Fewest(ctx, first, most, func(each int) error {
		in.Options.Partitions = setting.Partitions(each * grid.Partitions)
		s := &search{Planner: &in, counted: map[mesh.Mesh]*Mesh{}, found: map[mesh.Mesh]*Mesh{}}
		err := s.count(ctx, grid, func(what string) {
			s.Progress.Report(fmt.Sprintf("%s in %d partitions that take turns: %s", setting.Axes(grid),
				in.Options.Partitions, what), 0, 0)
		})
		m = s.found[grid]
		return err
	})
	return m, err
}

// beyondHost reports whether a machine's host memory has no room for so many bytes of each worker.
func (p *Planner) beyondHost(r *setting.Resolved, bytes int64) bool {
	all := float64(bytes) * float64(min(max(1, p.Machine.Sharers), r.Workers))
	beyond := func(limit float64) bool { return limit > 0 && all > limit }
	return beyond(p.Machine.HostMemory) || beyond(float64(r.HostMemoryLimit))
}

// ratesLike are about the rates of a mesh. They are measured with two workers on each of its axes, on a graph
// smaller than that of a measured mesh.
func (s *search) ratesLike(ctx context.Context, grid mesh.Mesh, work float64,
	say func(what string),
) (*Rates, error) {
	on, err := s.resolve(grid)
	if err != nil {
		return nil, err
	}
	few := func(size int) int { return min(size, 2) }
	ofAxes := []mesh.Mesh{
		{Stages: few(grid.Stages), Partitions: 1, Slices: 1},
		{Stages: 1, Partitions: 1, Slices: few(grid.Slices)},
		{Stages: 1, Partitions: few(grid.Partitions), Slices: 1},
	}
	all := &Rates{}
	for _, axis := range ofAxes {
		if axis == mesh.One && grid != mesh.One {
			continue
		}
		r := s.ofAxes[axis]
		if r == nil {
			const smaller = 4
			r, err = s.rates(ctx, s.options(axis), smaller*work, s.machine(on), say)
			if refusal.Is(err) && ctx.Err() == nil { // a flag of another axis is refused
				continue
			} else if err != nil {
				return nil, err
			}
			s.ofAxes[axis] = r
		}
		all.add(r)
	}
	if all.Kernels == nil {
		return nil, err
	}
	return all, nil
}

// onGraph plans meshes on the graph itself: first the mesh of partitions, whose halo the counts then take,
// and then the fastest meshes by counts.
func (s *search) onGraph(ctx context.Context) error {
	rest := slices.Clone(s.all)
	planned := 0
	for number := 0; len(rest) > 0; number++ {
		slices.SortStableFunc(rest, func(a, b mesh.Mesh) int {
			return cmp.Compare(s.expected(a, number), s.expected(b, number))
		})
		grid := rest[0]
		if s.Exactly > 0 && planned >= s.Exactly && s.fastest() <= s.expected(grid, number) {
			return nil
		}
		rest = rest[1:]
		most, total := 0, len(s.all)
		if axes(grid) > 1 {
			most = max(1, s.left)
		}
		if s.Exactly > 0 {
			total = min(total, max(s.Exactly, number+1))
		}
		m, err := s.affordable(ctx, grid, most, s.say(grid, number, total))
		switch {
		case refusal.Is(err) && ctx.Err() == nil:
			s.refused[grid] = err
			delete(s.found, grid)
			continue
		case err != nil:
			return err
		case most > 0:
			s.left -= m.steps
		}
		planned++
		s.found[grid] = m
		delete(s.refused, grid)
		if s.Found != nil {
			s.Found(m, s.counted[grid])
		}
		if number == 0 && m.haloRows > 0 && len(s.counted) > 0 &&
			s.Counts.Measured(grid.Partitions, m.haloRows) {
			divided := slices.DeleteFunc(slices.Clone(rest),
				func(grid mesh.Mesh) bool { return grid.Partitions == 1 })
			if err := s.countAll(ctx, divided); err != nil {
				return err
			}
		}
	}
	return nil
}

// affordable predicts a mesh on the graph, unless it has more steps than most by counts; 0: no limit.
func (s *search) affordable(ctx context.Context, grid mesh.Mesh, most int, say func(what string),
) (*Mesh, error) {
	if counted := s.counted[grid]; counted != nil && most > 0 {
		steps := counted.steps // at least as many workers are planned on the graph
		if n := grid.Workers(); n <= mostPlanned {
			steps = n * counted.Plan.Workers[0].Counts.Steps()
		}
		if steps > most {
			return nil, plan.TooManySteps(steps, most)
		}
	}
	return s.mesh(ctx, grid, most, say)
}

// expected is how long an epoch takes on a mesh by counts. It is infinite if counts refuse the mesh, and 0
// without counts and for the first mesh.
func (s *search) expected(grid mesh.Mesh, number int) float64 {
	m := s.counted[grid]
	switch {
	case len(s.counted) == 0, number == 0 && axes(grid) == 1 && grid.Partitions > 1:
		return 0
	case m == nil:
		return math.Inf(1)
	}
	return m.Times.Epoch
}

// fastest is the shortest epoch among the meshes that were planned on the graph.
func (s *search) fastest() (seconds float64) {
	for _, m := range s.found {
		if !m.ByCounts && (seconds == 0 || m.Times.Epoch < seconds) {
			seconds = m.Times.Epoch
		}
	}
	return seconds
}
