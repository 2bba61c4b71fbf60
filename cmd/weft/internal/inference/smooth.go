package inference

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"weft/cmd/weft/internal/cli"
	"weft/cmd/weft/internal/data"
	"weft/cmd/weft/internal/session"
	"weft/cmd/weft/internal/ui"
	"weft/comm/launch"
	"weft/gnn"
	"weft/internal/refusal"
	"weft/train"
	"weft/train/predictions"
	"weft/train/rundir"
	"weft/train/setting"
	"weft/train/task"
)

// The methods of smooth.
const (
	correctAndSmooth = "correct-and-smooth"
	labelPropagation = "label-propagation"
)

type smoothCommand struct {
	settings                   cli.SettingFlags
	method                     string
	correctRounds, rounds      int
	correctAlpha, alpha, scale float64
	split                      storedSplit // −1: the split of the run
	val, json                  bool
	out                        string
}

// NewSmooth makes the command smooth.
func NewSmooth() *cobra.Command {
	s := &smoothCommand{split: -1}
	cmd := &cobra.Command{
		Use:   "smooth RUN",
		Short: "improve the predictions of a run by known labels: Correct and Smooth, label propagation",
		Long: `smooth spreads the labels of training vertices along the edges, and prints the metrics of the run before and after.

Correct and Smooth (Huang et al. 2021) first spreads the errors that the model makes on training vertices, and corrects its class
probabilities by them. Then it spreads the corrected probabilities and the known labels. Label propagation spreads the known labels alone.
Each round takes alpha of the in-neighbours, weighted as in GCN, and the rest of the beginning.`,
		Example: `  weft smooth runs/first
  weft smooth runs/first --correct-alpha 1 --scale 20 --out runs/smooth.npy
  weft smooth runs/first --method label-propagation --json
  mpirun -n 4 weft smooth runs/first --parallel graph=4`,
		Annotations:       map[string]string{cli.JoinsRanks: ""},
		ValidArgsFunction: cli.CompleteInOrder(cli.CompleteRun),
		Args:              cli.Arguments(1, 1),
		RunE:              func(cmd *cobra.Command, args []string) error { return s.run(cmd, args[0]) },
	}
	f := cmd.Flags()
	f.StringVar(&s.method, "method", correctAndSmooth, "`name` of what is computed: "+correctAndSmooth+
		", "+labelPropagation)
	f.IntVar(&s.correctRounds, "correct-rounds", 50,
		"aggregations of the errors, 0 leaves the correction out")
	f.Float64Var(&s.correctAlpha, "correct-alpha", .9, "share of the in-neighbours in each aggregation of "+
		"the errors, above 0 and at most 1")
	f.Float64Var(&s.scale, "scale", 0, "factor of the correction, 0 derives one for each vertex (autoscale)")
	f.IntVar(&s.rounds, "smooth-rounds", 50, "aggregations of probabilities and labels, 0 leaves them out")
	f.Float64Var(&s.alpha, "smooth-alpha", .8, "share of the in-neighbours in each of them, above 0 "+
		"and at most 1")
	f.BoolVar(&s.val, "val-labels", false, "the labels of validation vertices are known, too, as "+
		"leaderboards allow")
	f.Var(&s.split, "split", "which stored split, from 0 (default: that of the run)")
	f.StringVar(&s.out, "out", "", "`file` for the smoothed probabilities: .npy (float32, vertices × "+
		"classes), .csv or .parquet (each vertex's class and its probability); an existing file is "+
		"overwritten")
	f.BoolVar(&s.json, "json", false, "print one JSON object")
	s.settings.AddThose(f, func(option setting.Setting) bool {
		return slices.Contains([]string{
			"parallel", "partitions", "partition", "balance", "device", "threads",
			"comm-timeout",
		}, option.Name)
	})
	return cmd
}

// smoothRequest is a request to smooth, once its arguments are parsed.
type smoothRequest struct {
	gnn.Smoothing
	train.Known
	options       *setting.Resolved
	store         string
	predictions   []float32 // logits of the run
	probabilities []float32
}

// smoothings are the metrics of a run before and after.
type smoothings struct {
	Before evaluations `json:"before"`
	After  evaluations `json:"after"`
}

func (s *smoothCommand) run(cmd *cobra.Command, dir string) error {
	asked, err := s.understand(dir)
	return cli.AsRank(cmd, asked.options, err, func(r cli.Ranks) error {
		metrics, err := s.smooth(cmd, r, &asked)
		if err != nil || !r.First() {
			return err
		}
		return ui.Show(cmd.OutOrStdout(), &metrics, s.json)
	})
}

// understand reads the run, and refuses predictions that cannot be smoothed.
func (s *smoothCommand) understand(dir string) (asked smoothRequest, err error) {
	if err := s.check(); err != nil {
		return asked, err
	}
	run, trained, _, err := rundir.Read(dir)
	if err != nil {
		return asked, err
	}
	switch {
	case trained.Task != task.Vertex:
		return asked, refusal.Errorf("%s: smooth is for classes of vertices, and this is a run of --task %s",
			dir, trained.Task)
	case run.Store == "":
		return asked, refusal.Errorf("%s: it names no store, as the graph was made in memory; "+
			"train on a store", dir)
	case run.Summary.Graph.Values > 0:
		return asked, refusal.Errorf("%s: smooth is for classes, and this run predicts values", dir)
	}
	asked.store = run.Store
	if cli.IsStore(run.Store) { // otherwise whoever opens it says why
		if err := checkGraph(run.Store, run.GraphID, dir, "train again"); err != nil {
			return asked, err
		}
	}
	o := setting.Defaults()
	o.Split, o.SplitSeed = trained.Split, trained.SplitSeed
	if s.split >= 0 {
		o.Split = task.Split{Number: int(s.split)}
	}
	if err := s.settings.Override(&o); err != nil {
		return asked, err
	}
	if asked.options, err = cli.Resolved(&o, s.settings.GivenNames()...); err != nil {
		return asked, err
	}
	if asked.options.Mesh.Stages > 1 {
		return asked, refusal.Errorf("--parallel %s: a pipeline cannot divide smoothing, which is one "+
			"block; give graph=N or tensor=N", o.Parallel)
	}
	if s.out != "" {
		err := cmp.Or(s.outputs().Check(rundir.Paths(dir)...), predictions.CheckEnding("out", s.out))
		if err != nil {
			return asked, err
		}
	}
	asked.Known = train.Known{Split: o.Split.Number, Val: s.val}
	asked.Smooth = gnn.Rounds{Count: s.rounds, Teleport: 1 - s.alpha}
	var classes int
	if asked.predictions, classes, err = rundir.ReadPredictions(dir); err != nil {
		return asked, refusal.Errorf("%w; smooth has no others, so train again", err)
	}
	asked.probabilities = make([]float32, len(asked.predictions))
	if s.method == correctAndSmooth {
		asked.Correct, asked.Scale = gnn.Rounds{Count: s.correctRounds, Teleport: 1 - s.correctAlpha}, s.scale
		for at := 0; at < len(asked.predictions); at += classes {
			softmax(asked.probabilities[at:at+classes], asked.predictions[at:at+classes])
		}
	}
	return asked, nil
}

// mostRounds bounds the rounds, as for the models that aggregate in rounds. mostScale bounds the factor of
// errors, which are 1 at most, so that what it makes of them is finite.
const (
	mostRounds = 1000
	mostScale  = 1e6
)

func (s *smoothCommand) outputs() cli.Outputs { return cli.Outputs{{Flag: "out", Path: s.out}} }

// check refuses flags that make no sense.
func (s *smoothCommand) check() error {
	switch {
	case s.method != correctAndSmooth && s.method != labelPropagation:
		return refusal.Errorf("--method %s: unknown; it is %s or %s", s.method,
			correctAndSmooth, labelPropagation)
	case min(s.correctRounds, s.rounds) < 0 || max(s.correctRounds, s.rounds) > mostRounds:
		return refusal.Errorf("--correct-rounds %d --smooth-rounds %d: give from 0 to %d rounds",
			s.correctRounds, s.rounds, mostRounds)
	case !(s.correctAlpha > 0 && s.correctAlpha <= 1):
		return refusal.Errorf("--correct-alpha %g: a share above 0 and at most 1 was expected",
			s.correctAlpha)
	case !(s.alpha > 0 && s.alpha <= 1):
		return refusal.Errorf("--smooth-alpha %g: a share above 0 and at most 1 was expected", s.alpha)
	case !(s.scale >= 0 && s.scale <= mostScale):
		return refusal.Errorf("--scale %g: a factor from 0 to %g was expected", s.scale, mostScale)
	}
	return nil
}

// softmax sets p to the softmax of z.
func softmax(p, z []float32) {
	top, sum := slices.Max(z), 0.
	for _, x := range z {
		sum += math.Exp(float64(x - top))
	}
	for c, x := range z {
		p[c] = float32(math.Exp(float64(x-top)) / sum)
	}
}

// smooth computes the smoothed probabilities on all ranks and writes them. It returns the metrics on the
// first rank.
func (s *smoothCommand) smooth(cmd *cobra.Command, r cli.Ranks,
	asked *smoothRequest,
) (metrics smoothings, err error) {
	opened, err := session.Open(cmd.Context(), r, data.Source{Name: asked.store}, asked.options,
		cmd.ErrOrStderr(), session.Opening{Admit: func(store string) error {
			return s.outputs().CheckApartFromGraph(asked.store, store)
		}})
	if err != nil {
		return metrics, err
	}
	defer opened.Close()
	s.settings.SayDevice(cmd.ErrOrStderr())
	ctx, stop := opened.UntilSignal(cmd, "", func() {})
	defer stop()
	began := time.Now()
	p, err := opened.Job.Smooth(ctx, asked.Smoothing, asked.probabilities, asked.Known)
	if err != nil {
		return metrics, opened.Failed(err, launch.ErrInterrupted)
	}
	if !r.First() {
		return metrics, nil
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "smoothed the probabilities of %s in %s\n",
		ui.Counted(p.Vertices, "vertex", "vertices"), ui.Duration(time.Since(began)))
	g, err := opened.Graph()
	if err != nil {
		return metrics, err
	}
	if s.out != "" {
		rows := train.Rows{
			Vertices: p.Vertices, Columns: p.Classes,
			Each: slices.Values([][]float32{p.Logits}),
		}
		if err := predictions.Write(s.out, rows,
			predictions.Table{
				Names: g.Types[0].Names, Columns: predictions.Probabilities,
				Classes: g.Types[0].Labels.Names,
			}); err != nil {
			return metrics, err
		}
	}
	return metrics, g.Guard(func() error {
		run, frame := &session.Request{}, &g.Types[0].Frame
		if err := metrics.Before.measure(run, asked.predictions, frame, asked.Split); err != nil {
			return err
		}
		return metrics.After.measure(run, logarithms(p.Logits), frame, asked.Split)
	})
}

// logarithms turns probabilities, whose sums need not be 1, into logits that stand for them.
func logarithms(p []float32) []float32 {
	const least = 1e-30 // in place of 0 and less
	z := make([]float32, len(p))
	for i, x := range p {
		z[i] = float32(math.Log(max(float64(x), least)))
	}
	return z
}

// Print draws the metrics of the run and those after it, for the eye.
func (m *smoothings) Print(out io.Writer) {
	t := ui.NewTable(out)
	t.Row("", "train", "smoothed", "validation", "smoothed", "test", "smoothed")
	for _, name := range slices.Sorted(maps.Keys(m.After.Test.Scores)) {
		cells := []string{name}
		before, after := m.Before.parts(), m.After.parts()
		for k := range before {
			cells = append(cells, ui.Measured(name, before[k].Scores[name]),
				ui.Measured(name, after[k].Scores[name]))
		}
		t.Row(cells...)
	}
	t.Flush()
}
