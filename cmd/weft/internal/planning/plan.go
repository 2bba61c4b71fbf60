package planning

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"weft/cmd/weft/internal/cli"
	"weft/cmd/weft/internal/data"
	"weft/cmd/weft/internal/ui"
	"weft/comm/launch"
	"weft/comm/mpi"
	"weft/configs"
	"weft/device"
	"weft/internal/refusal"
	"weft/parallel/mesh"
	"weft/train"
	"weft/train/plan"
	"weft/train/planner"
	"weft/train/setting"
)

// Exactly is how many meshes are planned on a graph itself, unless the caller says otherwise: the fastest by
// its counts.
const Exactly = 6

type planCommand struct {
	settings cli.SettingFlags
	tables   data.TablesGiven
	workers  int
	at       int
	sharers  int
	exactly  int
	link     string
	rates    string            // a file with the rates of a card
	card     *planner.CardSpec // the card whose rates are given; nil: none
	named    string            // the name of a machine that need not be here
	hardware *planner.Hardware
	explain  bool // say what each layer takes at least
	json     bool
	counts   CountsGiven
	loop     loopGiven
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

// run predicts and prints. Processes that a launcher started measure the links between them, and only the
// first one predicts.
func (p *planCommand) run(cmd *cobra.Command, dataset string) error {
	if p.loop.changed() {
		return p.ofLoop(cmd, dataset)
	}
	err := cmp.Or(p.readRates(cmd.Flags().Lookup("device")), p.readMachine(cmd.Flags()))
	if err != nil {
		return err
	}
	o, settings, links, err := p.understand()
	var counts *planner.Counts
	if err == nil {
		counts, err = p.counts.Counts(dataset, cmp.Or(p.at, p.workers), false)
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

// understand returns the options, the settings of one of the meshes, and the given links; links nil: none are
// given.
func (p *planCommand) understand() (o setting.Options, r *setting.Resolved, links *planner.Links, err error) {
	if o, err = p.settings.Merge(); err != nil {
		return o, nil, nil, err
	}
	parallel := ""
	if mpi.Launched() {
		p.workers = cmp.Or(p.workers, mpi.Ranks())
		parallel = fmt.Sprintf("graph=%d", mpi.Ranks())
	}
	if o.OnCard() { // cards' rates are the same for any number of workers
		p.workers, p.at = cmp.Or(p.at, p.workers), 0
	}
	r, err = p.settings.OnAnyMesh(parallel)
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

// onGraph predicts for a graph that is there, and prints.
func (p *planCommand) onGraph(cmd *cobra.Command, dataset string, o setting.Options,
	machine planner.Machine,
) error {
	source := p.tables.Source(dataset)
	source.DivideBy(o.Split.Rule)
	g, store, err := data.OpenDataset(cmd.Context(), source, cmd.ErrOrStderr(), nil)
	if err != nil {
		return err
	}
	defer g.Close()
	if err := o.Divide(g); err != nil {
		return data.About(source, err)
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
	return p.predict(cmd, source, &plans)
}

// predict predicts and prints. A signal ends it with what is known by then.
func (p *planCommand) predict(cmd *cobra.Command, source data.Source, plans *meshPlanner) error {
	workers := cmp.Or(p.at, p.workers)
	if plans.Options.OnCard() && p.card == nil {
		listed, _ := plans.Options.Device.Cards()
		numbers, err := device.Numbers(listed)
		var card *planner.CardSpec
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
		return data.About(source, err)
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

// checkExplained refuses to explain predictions by counts alone, or for cards.
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

// mostCounted is how many partitions of a worker are planned by counts, at most, so that this takes seconds.
func mostCounted(workers int) int {
	const all, each = 32, 8
	return max(each, all/workers)
}

// noMesh is NoMesh, with the number of partitions with which the graph fits a card, or that none does.
func (p *planCommand) noMesh(ctx context.Context, plans *meshPlanner, workers int,
	refused []planner.Refused,
) error {
	grid, most := mesh.Mesh{Stages: 1, Partitions: workers, Slices: 1}, mostCounted(workers)
	m, err := plans.Fewest(ctx, grid, most)
	plans.Shown.Erase()
	switch {
	case err != nil:
		return err
	case m != nil:
		return refusal.Errorf("%w; --partitions %d --offload %s fits on %s, with %s of a card, about %s in "+
			"the host's memory and %s an epoch", NoMesh(workers, refused), m.Settings.Mesh.Partitions, setting.RAM,
			m.Parallel, ui.Megabytes(m.CardBytes()), ui.Megabytes(m.Plan.HostBytes(0)),
			ui.Duration(ui.Seconds(m.Times.Epoch)))
	case !plans.ChoosesPartitions(grid):
		return NoMesh(workers, refused)
	}
	room := true // there is room for all that the settings allow
	for i := range refused {
		var exceeds plan.Exceeds
		if errors.As(refused[i].Reason, &exceeds) {
			refused[i].Reason, room = exceeds.WithoutPartitions(), false
		}
	}
	if room {
		return NoMesh(workers, refused)
	}
	return refusal.Errorf("%w; up to %d --partitions with --offload %s do not fit either",
		NoMesh(workers, refused), most*workers, setting.RAM)
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

// byCounts is how many of the meshes are predicted only by counts.
func byCounts(meshes []planner.Mesh) (n int) {
	for _, m := range meshes {
		if m.ByCounts {
			n++
		}
	}
	return n
}
