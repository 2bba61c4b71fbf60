package planning

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"weft/cmd/weft/internal/cli"
	"weft/cmd/weft/internal/data"
	"weft/cmd/weft/internal/session"
	"weft/cmd/weft/internal/ui"
	"weft/comm/launch"
	"weft/comm/mpi"
	"weft/configs"
	"weft/device"
	"weft/gnn"
	"weft/graph"
	"weft/internal/cache"
	"weft/internal/document"
	"weft/internal/refusal"
	"weft/kernel"
	"weft/parallel/mesh"
	"weft/partition"
	"weft/train"
	"weft/train/plan"
	"weft/train/planner"
	"weft/train/setting"
)

// Exactly is how many meshes are planned on a graph itself, the fastest by its counts, unless the caller says
// otherwise.
const Exactly = 6

type planCommand struct {
	settings cli.SettingFlags
	tables   data.TablesGiven
	workers  int
	at       int
	sharers  int
	exactly  int
	link     string
	rates    string        // a file with those of a card
	card     *planner.Card // that has given rates; nil: none has
	named    string        // a machine that need not be here
	hardware *planner.Hardware
	explain  bool // what each layer takes at least
	json     bool
	counts   CountsGiven
	loop     loopGiven
}

// mostDegree is the most edges of a vertex, on average, of a graph that is not there: so many that a part of
// it is still planned within seconds.
const mostDegree = 10_000

// CountsGiven are the counts of a graph that is not there.
type CountsGiven struct {
	vertices, edges, features, classes, edgeFeatures int
	halo                                             float64
	flags                                            *pflag.FlagSet // these
}

// Add adds the flags to a command.
func (c *CountsGiven) Add(flags *pflag.FlagSet) {
	c.flags = pflag.NewFlagSet("counts", pflag.ContinueOnError)
	c.flags.IntVar(&c.vertices, "vertices", 0, "`number` of vertices of a graph that is not there yet, as "+
		"in 10M")
	c.flags.IntVar(&c.edges, "edges", 0, "its `number` of edges as a store has them, each in both "+
		"directions, as in 1.5B")
	c.flags.IntVar(&c.features, "features", 0, "its `number` of feature columns")
	c.flags.IntVar(&c.classes, "classes", 0, "its `number` of classes")
	c.flags.IntVar(&c.edgeFeatures, "features-of-edges", 0, "its `number` of feature columns of an edge")
	c.flags.Float64Var(&c.halo, "halo-rows", 0, "`fraction` of its vertices that --workers partitions receive "+
		"of each other together: weft partition's replication less 1 (default: that of a random graph)")
	c.flags.VisitAll(func(f *pflag.Flag) {
		f.Annotations = map[string][]string{cli.FlagGroup: {"Counts (of a graph that is not there yet)"}}
	})
	flags.AddFlagSet(c.flags)
}

// learnsEdges has edges have labels of that name, in the place of vertices.
func learnsEdges(c *planner.Counts, column string) {
	train, val := int(c.Edges*6/10), int(c.Edges*2/10)
	split := graph.SplitSizes{Train: train, Val: val, Test: int(c.Edges) - train - val}
	l := partition.WholeEdgeLabels{Column: column, Classes: c.Classes, Splits: []graph.SplitSizes{split}}
	c.EdgeLabels = []partition.WholeEdgeLabels{l}
	c.Classes, c.Splits, c.Metric = 0, nil, ""
}

// Of are the counts; nil: none are given. name is the graph that is there, "": none is. partitions are those
// of --halo-rows. Of a loop there are no classes.
func (c *CountsGiven) Of(name string, partitions int, loop bool) (*planner.Counts, error) {
	given := ""
	c.flags.VisitAll(func(f *pflag.Flag) {
		if f.Changed && given == "" {
			given = f.Name
		}
	})
	switch {
	case given == "" && name == "":
		return nil, refusal.Errorf("name a graph, or give the counts of one that is not there yet, as in " +
			"weft plan --vertices 10M --edges 200M --features 128 --classes 40 --workers 16")
	case given == "":
		return nil, nil
	case name != "":
		return nil, refusal.Errorf("--%s: describes a graph that is not there yet, and %s is there; leave "+
			"one of them out", given, name)
	}
	for _, f := range []struct {
		name               string
		value, least, most int
	}{
		{"vertices", c.vertices, 2, math.MaxInt32},
		{"edges", c.edges, 1, min(1<<40, mostDegree*c.vertices)},
		{"features", c.features, 0, 1 << 20},
		{"features-of-edges", c.edgeFeatures, 0, 1 << 20},
		{"classes", c.classes, 1, c.vertices},
	} {
		if loop && f.name == "classes" {
			if c.flags.Changed(f.name) {
				return nil, refusal.Errorf("--classes %d: a loop has its own loss; leave it out", c.classes)
			}
			continue
		}
		if f.least > 0 && !c.flags.Changed(f.name) {
			return nil, refusal.Errorf("--%s: is missing; a graph that is not there yet needs it", f.name)
		}
		if f.value < f.least || f.value > f.most {
			return nil, refusal.Errorf("--%s %d: give %s to %s", f.name, f.value, ui.Count(f.least),
				ui.Count(f.most))
		}
	}
	train, val := c.vertices*6/10, c.vertices*2/10
	counts := &planner.Counts{Symmetric: true, Mixing: 1, EdgeColumns: c.edgeFeatures, Whole: partition.Whole{
		Vertices: c.vertices, Edges: int64(c.edges), Classes: c.classes,
		Types:  []partition.WholeType{{Vertices: c.vertices, FeatureColumns: c.features}},
		Metric: "accuracy",
		Splits: []graph.SplitSizes{{Train: train, Val: val, Test: c.vertices - train - val}},
	}}
	if c.flags.Changed("halo-rows") && (partitions < 2 || !counts.Measured(partitions, c.halo)) {
		return nil, refusal.Errorf("--halo-rows %g: it lies between 0 and what the edges can bring, for 2 "+
			"partitions or more; %d partitions of a random graph have %.2f", c.halo, partitions,
			counts.HaloRows(partitions))
	}
	return counts, nil
}

// NewPlan makes the command plan.
func NewPlan() *cobra.Command {
	p := &planCommand{}
	cmd := &cobra.Command{
		Use:   "plan [DATASET|STORE] --workers N",
		Short: "predict how long an epoch takes on each mesh of workers",
		Long: `plan predicts an epoch on each mesh of N workers, before any run: its time, the memory of the worker that takes most, the bytes that
all workers send, and what limits it. The fastest mesh comes first. Bytes and memory are those of a run, about those where there are more
than 16 workers, of which some stand for others. Times come from the kernel calls
and messages of each worker, from the rates of kernels, which are measured on this machine, and from the links: those of --link, or
those between the processes that a launcher started, which are measured.

All meshes are predicted by counts of the graph first, of up to 64 workers within seconds (of partitions that take turns, within minutes),
and then the fastest on the graph itself: --exactly says how many. --vertices and the flags beside it give the counts of a graph that is
not there yet. Then its partitions are equal, an edge leads from any vertex to any other unless --halo-rows says how few rows they
receive, and 60 % of the vertices are for training, or of the edges with --edge-label.

An epoch is limited by compute (kernels), link (messages on their way), imbalance (waiting for the worker with most to compute), bubble
(waiting while a pipeline fills and drains) or wait (other waiting for workers).

With --device each worker computes on a card of its own, which need not be here: one whose rates are published, or --device-rates has, or
on the one that is here, whose rates are measured once. In place of compute an epoch is then limited by memory (the card's), products,
launches, or CPU (kernels that no card has). --machine has the cards of a machine or of several, their links and the host's memory.

With --passes it says what a step of a loop of your own around weft.compile takes, on the one mesh of --parallel, which may have samples=N:
the memory of each worker, and what it sends in each pass. --program is the model, as weft.plan in Python writes it for a module.

Flags stay on each mesh: one without the axis that a flag such as --halo is for is left out, as train refuses it. Settings of --config have
their defaults there.`,
		Example: `  weft plan stores/sbm --workers 4 --link 1gbit
  weft plan stores/sbm --workers 4 --link 100mbit --model gcnii --layers 16 --json
  mpirun --map-by ppr:1:node --bind-to none weft plan stores/sbm --json > plan.json
  weft plan stores/sbm --workers 16 --link plan.json
  weft plan --vertices 10M --edges 200M --features 128 --classes 40 --workers 16 --link 10gbps
  weft plan stores/sbm --workers 4 --device h100
  weft plan stores/sbm --machine h100x8
  weft plan stores/sbm --program program.json --parallel graph=4 --passes 3 --inputs x --gradients x`,
		Annotations:       map[string]string{cli.JoinsRanks: ""},
		ValidArgsFunction: cli.CompleteInOrder(cli.CompleteGraph),
		Args:              p.tables.Arguments(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.run(cmd, strings.Join(args, ""))
		},
	}
	flags := cmd.Flags()
	p.settings.Add(flags)
	p.tables.Add(cmd, false)
	device := flags.Lookup("device")
	device.Value = cardValue{device.Value, &p.card}
	device.Usage += ", or a card that need not be here: " + strings.Join(planner.PublishedNames(), ", ")
	device.Annotations[cli.FlagChoices] = slices.Concat(device.Annotations[cli.FlagChoices],
		planner.PublishedNames())
	flags.StringVar(&p.rates, "device-rates", "", "JSON `file` with the rates of a card on which the workers "+
		"compute, as card of plan --json has them; it need not be here")
	flags.StringVar(&p.named, "machine", "", "`name` of a machine with cards that need not be here: "+
		strings.Join(configs.Machines(), ", ")+"; or a YAML file alike")
	flags.Lookup("machine").Annotations = map[string][]string{cli.FlagChoices: configs.Machines()}
	flags.IntVar(&p.workers, "workers", 0, "number of workers (default: the processes that a "+
		"launcher started, or the cards of --machine)")
	flags.IntVar(&p.at, "at", 0, "predict for so `many` workers instead: their partitions are made in "+
		"memory and not kept, and the rates are those of --workers")
	flags.IntVar(&p.exactly, "exactly", Exactly, "plan at least so `many` meshes on the graph itself, the "+
		"fastest by its counts; 0: none")
	flags.StringVar(&p.link, "link", "", "`rate` at which a worker sends and receives, as in 100mbit, "+
		"10gbps or 12.5GB/s, or a file of plan --json, whose links are taken (default: measured under a "+
		"launcher, else this machine's memory)")
	flags.IntVar(&p.sharers, "per-machine", 0, "workers that share the cores of a machine like this one "+
		"(default: as the launcher's processes do, else 1 with --link, else all)")
	flags.BoolVar(&p.explain, "explain", false, "print, too, what each layer takes at least on the fastest mesh: its "+
		"work, by the rates of this machine, which are measured once")
	flags.BoolVar(&p.json, "json", false, "print one JSON object")
	p.counts.Add(flags)
	p.loop.add(flags)
	return cmd
}

// run predicts and prints. Processes that a launcher started measure the links between them, and the first
// one predicts.
func (p *planCommand) run(cmd *cobra.Command, dataset string) error {
	if p.loop.given() {
		return p.ofLoop(cmd, dataset)
	}
	err := cmp.Or(p.readRates(cmd.Flags().Lookup("device")), p.readMachine(cmd.Flags()))
	if err != nil {
		return err
	}
	o, settings, links, err := p.understand()
	var counts *planner.Counts
	if err == nil {
		counts, err = p.counts.Of(dataset, cmp.Or(p.at, p.workers), false)
	}
	if err == nil && counts != nil {
		if err = p.checkCounts(cmd, counts, &o); o.EdgeLabel != "" {
			learnsEdges(counts, o.EdgeLabel)
		}
	}
	if err == nil {
		err = p.checkExplained(counts, &o)
	}
	return cli.AsRank(cmd, settings, err, func(r cli.Ranks) error {
		machine, err := p.machine(r, &o, links)
		if err := r.Together(err); err != nil {
			return err
		}
		return r.OnFirst(func() error {
			if counts != nil {
				plans := newPlanner(o, p.settings.GivenNames(), cmd.ErrOrStderr())
				plans.Machine, plans.Counts = machine, counts
				return p.predict(cmd, data.Source{}, &plans)
			}
			return p.onGraph(cmd, dataset, o, machine)
		})
	})
}

// checkCounts refuses flags that are for a graph that is there, and counts without the features that the
// model reads.
func (p *planCommand) checkCounts(cmd *cobra.Command, counts *planner.Counts, o *setting.Options) error {
	graphs := slices.DeleteFunc(p.tables.Of("").Flags, func(f *pflag.Flag) bool {
		return f.Name == data.EdgeLabelFlag // which is a setting, too
	})
	if f := cmd.Flags().Lookup("exactly"); f.Changed {
		graphs = append(graphs, f)
	}
	switch {
	case len(graphs) > 0:
		return refusal.Errorf("--%s: is for a graph that is there; leave it out, or name one", graphs[0].Name)
	case counts.Types[0].FeatureColumns == 0 && o.NodeEmbedding == 0 &&
		!slices.Contains(gnn.Featureless(), o.Model):
		return refusal.Errorf("--features 0: %s reads features of vertices; give their columns, or have "+
			"some learned with --node-embedding N", o.Model)
	}
	return nil
}

// machine is what the workers run on, with the given links; nil: those between the ranks. All ranks call it
// together.
func (p *planCommand) machine(r cli.Ranks, o *setting.Options,
	links *planner.Links,
) (planner.Machine, error) {
	sharers := p.workers
	switch {
	case p.hardware != nil:
		return p.hardware.Machine(p.workers, o.DeviceMessages), nil
	case links != nil: // of other machines
		sharers = 1
	case o.OnCard() && r.Comm.Size() == 1: // links of cards pass messages on
		links = &planner.Links{}
	}
	m, err := r.Machine(sharers, links)
	m.Sharers = cmp.Or(p.sharers, min(m.Sharers, p.workers))
	m.Card = p.card
	return m, err
}

// cardValue is --device, which may also be a card whose rates are published.
type cardValue struct {
	pflag.Value
	card **planner.Card
}

// Set implements pflag.Value.
func (v cardValue) Set(text string) error {
	if *v.card = planner.Published(text); *v.card != nil {
		text = string(setting.AllCards)
	}
	if err := v.Value.Set(text); err != nil {
		return fmt.Errorf("%w, or a card: %s", err, strings.Join(planner.PublishedNames(), ", "))
	}
	return nil
}

// readRates reads the rates of a card in a file.
func (p *planCommand) readRates(device *pflag.Flag) (err error) {
	switch {
	case p.rates == "":
		return nil
	case p.card != nil:
		return refusal.Errorf("--device-rates %s: --device %s has rates already; leave one of them out", p.rates,
			p.card.Name)
	case !device.Changed:
		if err = device.Value.Set(string(setting.AllCards)); err != nil {
			return err
		}
	case !setting.Device(device.Value.String()).IsCard():
		return refusal.Errorf("--device-rates %s: --device %s is no card; leave one of them out", p.rates,
			device.Value)
	}
	if p.card, err = planner.ReadCard(p.rates); err != nil {
		return refusal.Errorf("--device-rates %w", err)
	}
	return nil
}

// readMachine reads what --machine names, in place of the flags that say a part of it.
func (p *planCommand) readMachine(flags *pflag.FlagSet) (err error) {
	if p.named == "" {
		return nil
	}
	for _, name := range []string{"device", "device-rates", "link", "per-machine", "at"} {
		if flags.Changed(name) {
			return refusal.Errorf("--machine %s: has what --%s says; leave one of them out", p.named, name)
		}
	}
	if p.hardware, err = planner.ReadHardware(p.named); err != nil {
		return refusal.Errorf("--machine %w", err)
	}
	if p.workers = cmp.Or(p.workers, p.hardware.Workers()); p.workers > p.hardware.Workers() {
		return refusal.Errorf("--workers %d: --machine %s has %s; take at most so many", p.workers, p.named,
			ui.Counted(p.hardware.Workers(), "card", "cards"))
	}
	if err = flags.Lookup("device").Value.Set(string(setting.AllCards)); err != nil {
		return err
	}
	p.card = &p.hardware.Card
	return nil
}

// onGraph predicts for a graph that is there, and prints.
func (p *planCommand) onGraph(cmd *cobra.Command, dataset string, o setting.Options,
	machine planner.Machine,
) error {
	of := p.tables.Of(dataset)
	of.DivideBy(o.Split.Rule)
	g, store, err := data.OpenDataset(cmd.Context(), of, cmd.ErrOrStderr(), nil)
	if err != nil {
		return err
	}
	defer g.Close()
	if err := o.Divide(g); err != nil {
		return data.About(of, err)
	}
	plans := GraphPlanner(o, p.settings.GivenNames(), g, dataset, store, cmd.ErrOrStderr())
	plans.Machine, plans.Exactly = machine, p.exactly
	if p.at > 0 {
		plans.Open = plans.inMemory
	}
	plans.Found = plans.sayFound
	if p.exactly == 0 {
		if plans.Graph = nil; plans.Counts == nil {
			return refusal.Errorf("--exactly 0: %s is not described by counts alone: it has several types "+
				"or relations, or sparse features; leave it out", dataset)
		}
	}
	return p.predict(cmd, of, &plans)
}

// predict predicts and prints. A signal ends it with what is known.
func (p *planCommand) predict(cmd *cobra.Command, of data.Source, plans *meshPlanner) error {
	workers := cmp.Or(p.at, p.workers)
	if plans.Options.OnCard() && p.card == nil {
		listed, _ := plans.Options.Device.Cards()
		numbers, err := device.Numbers(listed)
		var card *planner.Card
		if err == nil {
			card, err = planner.MeasureCard(numbers[0], plans.Cache)
		}
		if err != nil {
			return train.AboutDevice(plans.Options.Device, err)
		}
		plans.Machine.Card, plans.Machine.Cards = card, len(numbers)
	}
	ctx, stop := cli.UntilSignal(cmd.Context(), func(os.Signal) {}, nil)
	defer stop()
	meshes, refused, err := plans.Meshes(ctx, workers)
	plans.Shown.Erase()
	if err != nil && (ctx.Err() == nil || len(meshes) == 0) {
		return data.About(of, err)
	}
	if len(meshes) == 0 {
		return p.noMesh(ctx, plans, workers, refused)
	}
	if err != nil {
		err = fmt.Errorf("%w: %s predicted, %d on the graph itself", launch.ErrInterrupted,
			ui.Counted(len(meshes), "mesh is", "meshes are"), len(meshes)-byCounts(meshes))
	}
	var layers *bounds
	if p.explain && err == nil {
		on := slices.IndexFunc(meshes, func(m planner.Mesh) bool { return !m.ByCounts })
		var failed error
		if layers, failed = plans.boundsOf(&meshes[on]); failed != nil {
			return failed
		}
	}
	out := cmd.OutOrStdout()
	if p.json {
		return cmp.Or(err, ui.PrintJSON(out, planForPrograms(meshes, &plans.Machine, p.at > 0, layers)))
	}
	printMeshes(out, meshes, refused)
	if p.at > 0 {
		ui.Note(out, fmt.Sprintf("extrapolated from %s to %s: kernels were measured on fewer",
			ui.Counted(p.workers, "worker", "workers"), ui.Count(p.at)))
	}
	ui.Note(out, ofModel(&meshes[0]))
	if layers != nil {
		layers.print(out)
	}
	if byCounts(meshes) > 0 {
		ui.Note(out, plans.counted())
	}
	ui.Note(out, plans.assumed(meshes))
	for _, line := range Approximations(meshes) {
		ui.Note(out, line)
	}
	return err
}

// checkExplained refuses to explain what is predicted by counts alone, or for cards.
func (p *planCommand) checkExplained(counts *planner.Counts, o *setting.Options) error {
	switch {
	case !p.explain:
		return nil
	case counts != nil || p.exactly == 0 || p.at > 0:
		return refusal.Errorf("--explain: counts do not tell the work of each layer; name a graph, without " +
			"--exactly 0 and --at")
	case o.OnCard():
		return refusal.Errorf("--explain: bounds are those of the CPU; leave --device and --device-rates out")
	}
	return nil
}

// mostCounted is how many partitions of one of so many workers are planned by counts, so that this takes
// seconds.
func mostCounted(workers int) int {
	const all, each = 32, 8
	return max(each, all/workers)
}

// noMesh is NoMesh, with the partitions by which the graph fits a card, if there are such.
func (p *planCommand) noMesh(ctx context.Context, plans *meshPlanner, workers int,
	refused []planner.Refused,
) error {
	no := NoMesh(workers, refused)
	m, err := plans.Fewest(ctx, mesh.Mesh{Stages: 1, Partitions: workers, Slices: 1}, mostCounted(workers))
	plans.Shown.Erase()
	if m == nil || err != nil {
		return cmp.Or(err, no)
	}
	return refusal.Errorf("%w; --partitions %d --offload %s fits on %s, with %s of a card, about %s in the "+
		"host's memory and %s an epoch", no, m.Settings.Mesh.Partitions, setting.RAM, m.Parallel,
		ui.Megabytes(m.CardBytes()), ui.Megabytes(m.Plan.HostBytes(0)),
		ui.Duration(ui.Seconds(m.Times.Epoch)))
}

// ofModel says which model was planned.
func ofModel(m *planner.Mesh) string {
	o := m.Settings
	return fmt.Sprintf("the model is %s%s, %s%s, %s: --config or --model, --layers and --hidden "+
		"plan another", ui.When(o.Decoupled, "decoupled "), o.Model,
		ui.Counted(o.Depth(), "layer", "layers"),
		ui.When(o.Uses("hidden"), fmt.Sprintf(", hidden width %d", o.Hidden)),
		ui.Counted(m.Plan.Parameters(o.Mesh), "parameter", "parameters"))
}

// byCounts is how many of the meshes are predicted by counts alone.
func byCounts(meshes []planner.Mesh) (n int) {
	for _, m := range meshes {
		if m.ByCounts {
			n++
		}
	}
	return n
}

// understand are the options, the settings of one of the meshes, and the given links; nil: none are.
func (p *planCommand) understand() (o setting.Options, r *setting.Resolved, links *planner.Links, err error) {
	if o, err = p.settings.Merge(); err != nil {
		return o, nil, nil, err
	}
	one := ""
	if mpi.Launched() {
		p.workers = cmp.Or(p.workers, mpi.Ranks())
		one = fmt.Sprintf("graph=%d", mpi.Ranks())
	}
	if o.OnCard() { // whose rates are the same for any number of workers
		p.workers, p.at = cmp.Or(p.at, p.workers), 0
	}
	r, err = p.settings.OnAnyMesh(one)
	switch {
	case p.workers < 1 || p.workers > mesh.MaxWorkers:
		err = refusal.Errorf("--workers %d: say for how many workers, 1 to %d", p.workers, mesh.MaxWorkers)
	case p.at < 0 || p.at > mesh.MaxWorkers || p.at > 0 && p.at < p.workers:
		err = refusal.Errorf("--at %d: from the %d workers of --workers to %d", p.at,
			p.workers, mesh.MaxWorkers)
	case o.Parallel != "":
		err = refusal.Errorf("--parallel %s: plan compares all meshes of --workers N; leave it out",
			o.Parallel)
	case p.exactly < 0:
		err = refusal.Errorf("--exactly %d: give 0 or more", p.exactly)
	case p.sharers < 0 || p.sharers > p.workers:
		err = refusal.Errorf("--per-machine %d: from 1 to the %d workers", p.sharers, p.workers)
	case p.link != "" && err == nil:
		links, err = linksOf(p.link)
	}
	return o, r, links, err
}

// payload is the share of TCP's bytes that are not headers, in frames of 1514 bytes.
const payload = 1448.0 / 1514

// linksOf reads what --link says: a rate, or a file with the links that an earlier plan printed as JSON.
func linksOf(text string) (*planner.Links, error) {
	rate, is := cli.BytesPerSecond(text)
	if !is {
		return linksIn(text)
	}
	links := planner.OfRate(payload * rate)
	return &links, nil
}

// linksIn reads the links in a file that weft plan --json has written.
func linksIn(path string) (*planner.Links, error) {
	const most = 16 << 20
	text, err := document.Read(path, most)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, refusal.Errorf("--link %s: neither a rate, as in 100mbit, 10gbps or 12.5GB/s, nor a "+
			"file that weft plan --json has written", path)
	} else if err != nil {
		return nil, refusal.Errorf("--link %w", err)
	}
	var written struct{ Links *planner.Links }
	err = json.Unmarshal(text, &written)
	if l := written.Links; err != nil || l == nil || min(l.Sends, l.Receives) <= 0 ||
		min(l.Latency, l.Handling, float64(l.Eager)) < 0 {
		return nil, refusal.Errorf("--link %s: the file has no links; weft plan --json writes them", path)
	}
	return written.Links, nil
}

// meshPlanner is a planner, in words.
type meshPlanner struct {
	planner.Planner
	Shown *ui.Stages // how far it is; whoever asks for meshes erases it
}

// here tells this program and this machine from others, which take another time for the same kernels.
func here() string {
	return fmt.Sprintf("weft %s on %s, %s, bf16 by %s", cli.Version,
		cli.ProcEntry("/proc/cpuinfo", "model name"),
		kernel.SIMD(), kernel.BFloat16Products())
}

// newPlanner is a planner without a graph and a machine. given names the settings that the caller gave.
func newPlanner(o setting.Options, given []string, show io.Writer) meshPlanner {
	p := planner.Planner{Options: o, Given: given}
	if root := cache.Root(); root != "" {
		p.Cache.Folder = filepath.Join(root, "rates-5", fmt.Sprintf("%.8x", sha256.Sum256([]byte(here()))))
	}
	shown := ui.NewStages(show)
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
func GraphPlanner(o setting.Options, given []string, g *graph.Graph, dataset, store string,
	show io.Writer,
) meshPlanner {
	p := newPlanner(o, given, show)
	p.Graph, p.Counts = g, planner.CountsOf(g)
	shown := p.Shown
	p.Open = func(ctx context.Context, r *setting.Resolved) (job *train.Job, err error) {
		shown.Pause() // opening says what it does
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

// sayFound says what is predicted for a mesh, as soon as it is.
func (p *meshPlanner) sayFound(m, counted *planner.Mesh) {
	line := fmt.Sprintf("%s: %s an epoch, %s", m.Parallel, ui.Duration(ui.Seconds(m.Times.Epoch)),
		ui.Megabytes(m.PeakTensorBytes()))
	if counted != nil {
		line += fmt.Sprintf(" (by counts %s, %s)", ui.Duration(ui.Seconds(counted.Times.Epoch)),
			ui.Megabytes(counted.PeakTensorBytes()))
	}
	p.Shown.Line(line)
}

// counted says what predictions by counts rest on.
func (p *meshPlanner) counted() string {
	c := p.Counts
	return fmt.Sprintf("by counts, in equal partitions: %s vertices, %s edges, of which %.0f %% lead from "+
		"any vertex to any other", ui.Count(c.Vertices), ui.Count(c.Edges), 100*c.Mixing)
}

// inMemory opens the graph for a mesh, with partitions that nobody keeps.
func (p *meshPlanner) inMemory(ctx context.Context, r *setting.Resolved) (*train.Job, error) {
	job := &train.Job{Options: r.Options, Graph: p.Graph}
	if r.Validate == "" {
		return job, nil
	}
	g, _, err := data.OpenDataset(ctx, data.Source{Name: r.Validate}, io.Discard, nil)
	job.Validate = &train.Job{Dataset: r.Validate, Graph: g}
	return job, err
}

// assumed says what predictions rest on.
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

// assumedOf says what predictions for a card rest on.
func (p *meshPlanner) assumedOf(c *planner.Card) string {
	gigabytes := func(rate float64) string { return fmt.Sprintf("%.4g GB/s", rate/1e9) }
	said := fmt.Sprintf("%s: %s, copies of %s in it, %s to it and %s back; products of %.3g TFLOP/s, of "+
		"bfloat16 %.3g; kernels reach %.0f %% of these, after %.2g µs for each launch", ui.Printable(c.Name),
		ui.Megabytes(int64(c.Memory)), gigabytes(c.Copy), gigabytes(c.ToDevice), gigabytes(c.ToHost),
		c.Flops/1e12, c.BFloat16Flops/1e12, 100*c.Reached(), 1e6*c.Launch)
	if m := p.Machine; m.Sends > 0 {
		said += fmt.Sprintf("; links that send %s and receive %s, %.2g ms for each message", gigabytes(m.Sends),
			gigabytes(m.Receives), 1e3*m.Latency)
	}
	if m := p.Machine; m.Far.Sends > 0 {
		said += fmt.Sprintf("; machines of %d cards, each of which sends %s to others", m.Sharers,
			gigabytes(m.Far.Sends))
	}
	return said
}

// NoMesh is the refusal if no mesh is possible. If a memory limit is why, the mesh that needs least tells it.
func NoMesh(workers int, refused []planner.Refused) error {
	least := int64(math.MaxInt64)
	lines := reasons(refused)
	for i := range refused {
		var exceeds plan.Exceeds
		if errors.As(refused[i].Reason, &exceeds) && exceeds.Need < least {
			least = exceeds.Need
			lines = []string{"with least memory, " + reasons(refused[i : i+1])[0]}
		}
	}
	return refusal.Errorf("no mesh of %s is possible: %s", ui.Counted(workers, "worker", "workers"),
		strings.Join(lines, "; "))
}

// reasons say why meshes are not possible. One that several have stands once, after all of them.
func reasons(refused []planner.Refused) (lines []string) {
	meshes := map[string][]string{} // by reason
	var all []string
	for _, r := range refused {
		mesh, reason := reason(&r)
		if meshes[reason] == nil {
			all = append(all, reason)
		}
		meshes[reason] = append(meshes[reason], mesh)
	}
	for _, reason := range all {
		lines = append(lines, refusal.List(meshes[reason], 3)+": "+reason)
	}
	return lines
}

// reason says why a mesh is not possible.
func reason(r *planner.Refused) (mesh, why string) {
	mesh = "--parallel " + r.Parallel
	return mesh, ui.Printable(strings.TrimPrefix(r.Reason.Error(), mesh+": "))
}

// plannedMesh is a mesh as plan prints it as JSON.
type plannedMesh struct {
	Parallel        string  `json:"parallel"`
	EpochSeconds    float64 `json:"epoch_seconds"`
	PeakTensorBytes int64   `json:"peak_tensor_bytes"` // of the worker with most
	SentBytes       int64   `json:"sent_bytes"`        // by all workers in an epoch
	LimitedBy       string  `json:"limited_by"`
	// training on it gives the results of one worker, but for rounding
	Exact        bool   `json:"exact"`
	Extrapolated bool   `json:"extrapolated"`      // from fewer workers
	Balance      string `json:"balance,omitempty"` // of partitions
	ByCounts     bool   `json:"by_counts"`         // of the graph: bytes and memory are not those of a run
	*onCard
}

// onCard is what a mesh takes of cards.
type onCard struct {
	CardBytes   int64   `json:"card_bytes"`      // of the worker with most
	HostBytes   int64   `json:"host_bytes"`      // of what rests there, and of messages, of all workers
	CopySeconds float64 `json:"copy_seconds"`    // that no kernels hide
	WasRead     int64   `json:"to_device_bytes"` // from there, by all workers in an epoch
	WasWritten  int64   `json:"to_host_bytes"`
}

// planForPrograms is a plan as --json prints it.
func planForPrograms(meshes []planner.Mesh, on *planner.Machine, extrapolated bool, of *bounds) any {
	var list []plannedMesh
	for _, m := range meshes {
		exact := m.Exact && len(Approximations([]planner.Mesh{m})) == 0
		one := plannedMesh{
			m.Parallel, m.Times.Epoch, m.PeakTensorBytes(), m.SentBytes(),
			m.LimitedBy(), exact, extrapolated, m.Balance, m.ByCounts, nil,
		}
		if on.Card != nil {
			moved := m.Plan.Disk()
			one.onCard = &onCard{
				m.CardBytes(), m.Plan.HostBytes(0), m.Times.Copies, moved.Read, moved.Written,
			}
		}
		list = append(list, one)
	}
	o := meshes[0].Settings
	return struct {
		Model      string        `json:"model"`
		Layers     int           `json:"layers"`
		Hidden     int           `json:"hidden"`
		Parameters int           `json:"parameters"`
		Meshes     []plannedMesh `json:"meshes"`
		Links      planner.Links `json:"links,omitzero"`
		Far        planner.Links `json:"links_between_machines,omitzero"`
		Card       *planner.Card `json:"card,omitempty"`
		Bounds     *bounds       `json:"bounds,omitempty"`
	}{
		o.Model, o.Depth(), o.Hidden, meshes[0].Plan.Parameters(o.Mesh), list, on.Links, on.Far,
		on.Card, of,
	}
}

// Approximations says how what workers send makes training approximate on some of the meshes.
func Approximations(meshes []planner.Mesh) (lines []string) {
	for _, m := range meshes {
		for _, line := range approximate(m.Settings) {
			if !slices.Contains(lines, line) {
				lines = append(lines, line)
			}
		}
	}
	return lines
}

func printMeshes(out io.Writer, meshes []planner.Mesh, refused []planner.Refused) {
	rows := [][]string{{
		"mesh", "epoch", "compute", "link", "copies", "others", "memory", "host", "sent",
		"limited by", "balance", "by",
	}}
	var approximate []string
	for _, m := range meshes {
		t := &m.Times
		if !m.Exact {
			approximate = append(approximate, m.Parallel)
		}
		by := "graph"
		if m.ByCounts {
			by = "counts"
		}
		memory := m.PeakTensorBytes()
		if m.Plan.Card != nil {
			memory = m.CardBytes()
		}
		rows = append(rows, []string{
			m.Parallel, ui.Duration(ui.Seconds(t.Epoch)), ui.Duration(ui.Seconds(t.Compute)),
			ui.Duration(ui.Seconds(t.Link)),
			ui.Duration(ui.Seconds(t.Copies)), ui.Duration(ui.Seconds(t.Imbalance + t.Bubble + t.Wait)),
			ui.Megabytes(memory), ui.Megabytes(m.Plan.HostBytes(0)), ui.Megabytes(m.SentBytes()),
			m.LimitedBy(),
			cmp.Or(m.Balance, "–"), by,
		})
	}
	if !slices.ContainsFunc(meshes, func(m planner.Mesh) bool { return m.Plan.Rests }) {
		for _, name := range []string{"copies", "host"} {
			at := slices.Index(rows[0], name)
			for k := range rows {
				rows[k] = slices.Delete(rows[k], at, at+1)
			}
		}
	}
	ui.PrintNumbers(out, rows, "by", "balance", "others", "link")
	if len(approximate) > 0 {
		ui.Note(out, "training is approximate on "+strings.Join(approximate, ", "))
	}
	for _, line := range reasons(refused) {
		ui.Note(out, "left out: "+line)
	}
}
