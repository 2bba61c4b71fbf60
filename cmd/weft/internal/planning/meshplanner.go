package planning

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"path/filepath"

	"weft/cmd/weft/internal/cli"
	"weft/cmd/weft/internal/data"
	"weft/cmd/weft/internal/session"
	"weft/cmd/weft/internal/ui"
	"weft/graph"
	"weft/internal/cache"
	"weft/kernel"
	"weft/train"
	"weft/train/planner"
	"weft/train/setting"
)

// meshPlanner is a planner that reports in words.
type meshPlanner struct {
	planner.Planner
	Shown *ui.Phases // its progress; whoever asks for meshes erases it
}

// here identifies this program and this machine, as others take another time for the same kernels.
func here() string {
	return fmt.Sprintf("weft %s on %s, %s, bf16 by %s", cli.Version,
		cli.ProcEntry("/proc/cpuinfo", "model name"),
		kernel.SIMD(), kernel.BFloat16Products())
}

// newPlanner returns a planner without a graph and a machine. supplied names the settings that the
// caller set.
func newPlanner(o setting.Options, supplied []string, show io.Writer) meshPlanner {
	p := planner.Planner{Options: o, Given: supplied}
	if root := cache.Root(); root != "" {
		p.Cache.Folder = filepath.Join(root, "rates-5", fmt.Sprintf("%.8x", sha256.Sum256([]byte(here()))))
	}
	shown := ui.NewPhases(show)
	p.Progress = shown.Show
	warned := ""
	p.Cache.Warn = func(why error) {
		if line := "rates of kernels: " + ui.Printable(why.Error()); line != warned {
			warned = line
			shown.Line(line)
		}
	}
	return meshPlanner{p, shown}
}

// GraphPlanner is newPlanner for a graph and its store.
func GraphPlanner(o setting.Options, supplied []string, g *graph.Graph, dataset, store string,
	show io.Writer,
) meshPlanner {
	p := newPlanner(o, supplied, show)
	p.Graph, p.Counts = g, planner.CountsOf(g)
	shown := p.Shown
	p.Open = func(ctx context.Context, r *setting.Resolved) (job *train.Job, err error) {
		shown.Pause() // the opening reports its own progress
		s := &session.Session{
			Ranks: cli.Alone(), Store: store,
			Job: &train.Job{Dataset: dataset, Options: r.Options, Graph: g},
		}
		if r.Mesh.Partitions > 1 {
			if s, err = session.Open(ctx, cli.Alone(), data.Source{Name: store}, r, show,
				session.Opening{Check: r.CheckGraph}); err != nil {
				return nil, err
			}
		}
		return s.Job, s.OpenValidation(ctx, r, show)
	}
	return p
}

// sayFound says what is predicted for a mesh as soon as it is known.
func (p *meshPlanner) sayFound(m, counted *planner.Mesh) {
	line := fmt.Sprintf("%s: %s an epoch, %s", m.Parallel, ui.Duration(ui.Seconds(m.Times.Epoch)),
		ui.Megabytes(m.PeakTensorBytes()))
	if counted != nil {
		line += fmt.Sprintf(" (by counts %s, %s)", ui.Duration(ui.Seconds(counted.Times.Epoch)),
			ui.Megabytes(counted.PeakTensorBytes()))
	}
	p.Shown.Line(line)
}

// counted says what predictions by counts are based on.
func (p *meshPlanner) counted() string {
	c := p.Counts
	return fmt.Sprintf("by counts, in equal partitions: %s vertices, %s edges, of which %.0f %% lead from "+
		"any vertex to any other", ui.Count(c.Vertices), ui.Count(c.Edges), 100*c.Mixing)
}

// inMemory opens the graph for a mesh, with partitions that it does not keep.
func (p *meshPlanner) inMemory(ctx context.Context, r *setting.Resolved) (*train.Job, error) {
	job := &train.Job{Options: r.Options, Graph: p.Graph}
	if r.Validate == "" {
		return job, nil
	}
	g, _, err := data.OpenDataset(ctx, data.Source{Name: r.Validate}, io.Discard, nil)
	job.Validate = &train.Job{Dataset: r.Validate, Graph: g}
	return job, err
}

// assumed says what predictions are based on.
func (p *meshPlanner) assumed(meshes []planner.Mesh) string {
	if card := p.Machine.Card; card != nil {
		return p.assumedOf(card)
	}
	r := meshes[0].Rates
	kept := "kept in " + p.Cache.Folder
	switch {
	case r.Unkept != nil:
		kept = "not kept: " + r.Unkept.Error()
	case p.Cache.Folder == "":
		kept = "not kept, as there is no WEFT_CACHE"
	}
	m := p.Machine
	return fmt.Sprintf("links that send %s/s and receive %s/s, %.2g ms for each message, %.2g ns of a "+
		"core for each byte at each end; %s on %s; kernels measured here on %s (%s)",
		ui.Megabytes(int64(m.Sends)), ui.Megabytes(int64(m.Receives)), 1e3*m.Latency, 1e9*m.Handling,
		ui.Counted(m.Sharers, "worker", "workers"), ui.Counted(m.Cores, "core", "cores"),
		r.Measured.Format("2006-01-02 15:04"), ui.Printable(kept))
}

// assumedOf says what predictions for a card are based on.
func (p *meshPlanner) assumedOf(c *planner.CardSpec) string {
	gigabytes := func(rate float64) string { return fmt.Sprintf("%.4g GB/s", rate/1e9) }
	text := fmt.Sprintf("%s: %s, copies of %s in it, %s to it and %s back; products of %.3g TFLOP/s, of "+
		"bfloat16 %.3g; kernels reach %.0f %% of these, after %.2g µs for each launch", ui.Printable(c.Name),
		ui.Megabytes(int64(c.Memory)), gigabytes(c.Copy), gigabytes(c.ToDevice), gigabytes(c.ToHost),
		c.Flops/1e12, c.BFloat16Flops/1e12, 100*c.Reached(), 1e6*c.Launch)
	if m := p.Machine; m.Sends > 0 {
		text += fmt.Sprintf("; links that send %s and receive %s, %.2g ms for each message", gigabytes(m.Sends),
			gigabytes(m.Receives), 1e3*m.Latency)
	}
	if m := p.Machine; m.Far.Sends > 0 {
		text += fmt.Sprintf("; machines of %d cards, each of which sends %s to others", m.Sharers,
			gigabytes(m.Far.Sends))
	}
	return text
}
