// Package training trains: the commands train and sweep.
package training

import (
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"weft/cmd/weft/internal/cli"
	"weft/cmd/weft/internal/data"
	"weft/cmd/weft/internal/planning"
	"weft/cmd/weft/internal/ui"
	"weft/comm/mpi"
	"weft/device"
	"weft/internal/cores"
	"weft/train"
	"weft/train/planner"
	"weft/train/setting"
)

// settle returns the settings of a run. With --parallel auto they have a mesh of as many workers as the mesh
// that choose finds may have. A run that continues keeps its mesh and its partitions. run is nil for a run
// that begins.
func (t *trainCommand) settle(run *resumption) (r *setting.Resolved, auto bool, err error) {
	o, err := t.settings.Merge()
	if err == nil && o.Partitions == setting.AutoPartitions {
		r, err = t.undivided(o, run)
		return r, false, err
	}
	if err != nil || o.Parallel != setting.Auto {
		r, err = t.settings.Resolve()
		return r, false, err
	}
	if run != nil {
		r, err = t.on(run.before.Parallel)
		return r, false, err
	}
	workers := cores.Count()
	if err := o.CheckCard(); err != nil {
		return nil, false, err
	}
	switch {
	case mpi.Launched():
		workers = mpi.Ranks()
	case o.OnCard():
		cards, err := cardsOf(o.Device)
		if err != nil {
			return nil, false, err
		}
		workers = len(cards)
	}
	r, err = t.settings.OnAnyMesh(fmt.Sprintf("graph=%d", workers))
	return r, true, err
}

// cardsOf are the numbers of this machine's cards that a setting names.
func cardsOf(d setting.Device) ([]int, error) {
	listed, _ := d.Cards()
	numbers, err := device.Numbers(listed)
	return numbers, train.AboutDevice(d, err)
}

// on are the settings on a mesh. Settings of other axes have their defaults, unless they were given.
func (t *trainCommand) on(parallel string) (*setting.Resolved, error) {
	o, err := t.settings.Merge()
	if err != nil {
		return nil, err
	}
	o.Parallel = parallel
	names := t.settings.GivenNames()
	o.ResetOtherAxes(func(name string) bool { return slices.Contains(names, name) })
	return o.Resolve(names...)
}

// choose takes the fastest exact mesh that meets the memory limit, as the first rank predicts, and says which
// it is. All ranks call it together.
func (t *trainCommand) choose(cmd *cobra.Command, r cli.Ranks, dataset string,
	settings *setting.Resolved,
) (*setting.Resolved, error) {
	m, err := r.Machine(settings.Workers, nil)
	if err != nil {
		return nil, err
	}
	chosen, err := cli.Decided(r, func() (string, error) {
		return t.fastest(cmd, r, dataset, m, settings.Workers)
	})
	if err != nil {
		return nil, err
	}
	settings, err = t.on(chosen)
	return settings, r.Together(err)
}

// fastest is the mesh to take. One process may also take one worker, with all threads or on one card.
func (t *trainCommand) fastest(cmd *cobra.Command, r cli.Ranks, dataset string, m planner.Machine,
	workers int,
) (string, error) {
	o, err := t.settings.Merge()
	if err != nil {
		return "", err
	}
	show := cmd.ErrOrStderr()
	g, store, err := data.OpenDataset(cmd.Context(), t.source(dataset), show, nil)
	if err != nil {
		return "", err
	}
	defer g.Close()
	if err := o.Divide(g); err != nil {
		return "", data.About(t.source(dataset), err)
	}
	p, counts := planning.GraphPlanner(o, t.settings.GivenNames(), g, dataset, store, show), []int{workers}
	listed, _ := o.Device.Cards() // each of several cards has a worker
	if r.Comm.Size() == 1 && workers > 1 && len(listed) < 2 {
		counts = []int{1, workers}
	}
	p.ExactOnly, p.Exactly = true, planning.Exactly
	if o.OnCard() {
		cards, err := cardsOf(o.Device)
		if err != nil {
			return "", err
		}
		if m.Card, err = planner.MeasureCard(cards[0], p.Cache); err != nil {
			return "", train.AboutDevice(o.Device, err)
		}
		if m.Cards = len(cards); r.Comm.Size() == 1 { // messages pass through the host's memory, and no link
			m.Links = planner.Links{}
		}
	}
	var (
		best    *planner.Mesh
		refused []planner.Refused
	)
	for _, n := range counts {
		p.Machine = m
		p.Machine.Sharers = min(m.Sharers, n)
		meshes, not, err := p.Meshes(cmd.Context(), n)
		p.Shown.Erase()
		if err != nil {
			return "", data.About(t.source(dataset), err)
		}
		refused = append(refused, not...)
		for _, mesh := range meshes { // the fastest of the meshes planned on the graph is the fastest of all
			if !mesh.ByCounts && (best == nil || mesh.Times.Epoch < best.Times.Epoch) {
				best = &mesh
			}
		}
	}
	if best == nil {
		return "", planning.NoMesh(workers, refused)
	}
	sayChosen(show, best)
	return best.Parallel, nil
}

func sayChosen(show io.Writer, m *planner.Mesh) {
	fmt.Fprintf(show, "--parallel auto: %s, the fastest exact mesh: %s an epoch are predicted, limited by "+
		"%s, with %s for tensors on a worker; weft plan compares all\n",
		m.Parallel, ui.Duration(ui.Seconds(m.Times.Epoch)), m.LimitedBy(),
		ui.Megabytes(m.PeakTensorBytes()))
	for _, line := range planning.Approximations([]planner.Mesh{*m}) {
		fmt.Fprintln(show, line)
	}
}
