package inference

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"weft/cmd/weft/internal/cli"
	"weft/cmd/weft/internal/data"
	"weft/cmd/weft/internal/reports"
	"weft/cmd/weft/internal/ui"
	"weft/comm/launch"
	"weft/internal/atomicfile"
	"weft/internal/refusal"
	"weft/internal/suggest"
	"weft/train/setting"
	"weft/train/task"
)

type explainCommand struct {
	settings           cli.SettingFlags
	tables             data.TablesGiven
	vertex, edge       string
	class              string
	out, masks         string
	top, steps, remove int
	json               bool
}

// mostSteps bounds the points of integrated gradients, whose sums are of float32: the rounding of so many
// terms is larger than what more points change.
const mostSteps = 10_000

// NewExplain makes the command explain.
func NewExplain() *cobra.Command {
	e := &explainCommand{}
	cmd := &cobra.Command{
		Use:   "explain RUN [STORE] --vertex ID|--edge ID",
		Short: "say which edges, neighbours and columns a prediction rests on",
		Long: `explain takes apart the score of a class or label for a vertex, or for an edge of a run with --edge-label: the logit log(p/(1 − p)) of its probability p, or the value that is predicted.
What a feature contributes is its gradient times the feature (Simonyan et al. 2013), and what a vertex or a column contributes is the sum of that over its features. What
an edge contributes is the gradient of a factor of the messages along it, as the edge_mask of PyG's explanations, times that factor, 1.
Features are those that the model reads, standardised if it was trained so. Those of an edge itself are standard scores, and for a module of your own as they are.

--steps takes integrated gradients (Sundararajan et al. 2017): means along the path from zeros, at the middles of so many parts of it. What all
features contribute then is the score less that without features.

The strongest edges that raise the score are then left out, and a second prediction says what is left of it. It is that of a
store without these edges, to the bit. An edge that is explained is scored as a new one then, between vertices that do not have it.

Of a run with --edge-label, --vertex lists the vertex's edges, the likeliest first, and explains that one; of two classes the second one
counts, if --class names none. An edge's number is that of the column edge of weft predict. A row of predict --add-edges has none before weft append adds it: predict on
the store with it then tells its number.`,
		Example: `  weft explain runs/first --vertex 7
  weft explain runs/churn --vertex C-00001 --class yes --out why.html
  weft explain runs/churn --vertex C-00001 --steps 50 --json
  weft explain runs/fraud --edge 2211 --out why.html`,
		ValidArgsFunction: cli.CompleteInOrder(cli.CompleteRun, cli.CompleteGraph),
		Args:              e.tables.Arguments(1, 2),
		RunE:              func(cmd *cobra.Command, args []string) error { return e.run(cmd, args) },
	}
	f := cmd.Flags()
	f.StringVar(&e.vertex, "vertex", "", "`name` or id of the vertex whose prediction is explained")
	f.StringVar(&e.edge, "edge", "", "`number` of the edge whose prediction is explained, as in the column edge of "+
		"predict")
	f.StringVar(&e.class, "class", "", "`name` or number of the class, label or value (default: the likeliest, "+
		"or the first value)")
	f.IntVar(&e.top, "top", 10, "`number` of edges, of vertices and of columns to list")
	f.IntVar(&e.steps, "steps", 0, "`number` of points of integrated gradients (default: gradient times input)")
	f.IntVar(&e.remove, "remove", 3, "`number` of edges to leave out in the second prediction, 0 makes none")
	f.StringVar(&e.out, "out", "", "`file` for a page with a picture, .html or .htm; an existing file is "+
		"overwritten")
	f.StringVar(&e.masks, "masks", "", "`file` for what all features and edges contribute (safetensors); an "+
		"existing file is overwritten")
	f.BoolVar(&e.json, "json", false, "print one JSON object")
	e.tables.Add(cmd, true)
	e.settings.AddThose(f, func(option setting.Setting) bool { return option.Name == "threads" })
	return cmd
}

// check refuses flags that make no sense.
func (e *explainCommand) check() error {
	switch {
	case e.vertex == "" && e.edge == "":
		return refusal.Errorf("explain: name a vertex with --vertex, or an edge with --edge")
	case e.vertex != "" && e.edge != "":
		return refusal.Errorf("--vertex %s and --edge %s: one prediction is explained; leave one of them out",
			e.vertex, e.edge)
	case e.top < 1:
		return refusal.Errorf("--top %d: the number of lines is 1 or more", e.top)
	case e.steps > mostSteps:
		return refusal.Errorf("--steps %d: %d points at most; more have no more exact mean in float32, and 50 are "+
			"usual", e.steps, mostSteps)
	case e.steps < 0:
		return refusal.Errorf("--steps %d: the number of points is 1 or more, or 0 for gradient times input", e.steps)
	case e.remove < 0:
		return refusal.Errorf("--remove %d: the number of edges is 0 or more", e.remove)
	}
	if e.out == "" {
		return nil
	}
	return reports.CheckPageName(e.out)
}

func (e *explainCommand) outputs() cli.Outputs {
	return cli.Outputs{{Flag: "out", Path: e.out}, {Flag: "masks", Path: e.masks}}
}

func (e *explainCommand) run(cmd *cobra.Command, args []string) error {
	if err := e.check(); err != nil {
		return err
	}
	p, err := openPass(cmd, args, &e.settings, e.tables, e.outputs(), func(o *setting.Resolved) error {
		return e.checkRun(args[0], o)
	})
	if err != nil {
		return err
	}
	opened := p.opened
	defer opened.Close()
	x := &explanation{pass: p, Run: p.asked.Run, Store: opened.Store, Steps: e.steps}
	ctx, stop := opened.UntilSignal(cmd, "", nil)
	defer stop()
	x.shown = ui.NewPhases(ui.BesideResults(cmd))
	defer x.shown.Erase()
	err = opened.Job.Graph.Guard(func() error {
		err := x.make(ctx, e)
		x.shown.Erase()
		if err == nil && e.masks != "" {
			err = atomicfile.Write(e.masks, x.writeMasks)
		}
		return err
	})
	if err != nil {
		return failed(p.asked, opened, err, fmt.Errorf("%w; nothing is explained", launch.ErrInterrupted))
	}
	if e.out != "" {
		if err := atomicfile.Write(e.out, x.page().write); err != nil {
			return err
		}
		fmt.Fprintf(ui.ProgressOf(cmd, e.json), "%s: a page about %s\n", ui.Printable(e.out), x.subject())
	}
	return ui.Show(cmd.OutOrStdout(), x, e.json)
}

// checkRun refuses a run whose predictions are not explained.
func (e *explainCommand) checkRun(run string, o *setting.Resolved) error {
	switch {
	case o.Task == task.Link:
		return refusal.Errorf("explain %s: scores of vertices and edges are explained, and this is a run of --task %s",
			run, o.Task)
	case e.edge != "" && o.Task != task.Edge:
		return refusal.Errorf("--edge %s: the run predicts vertices; name one with --vertex", e.edge)
	case o.OverAll() != "":
		return refusal.Errorf("explain %s: %s takes its mean over all vertices, so that a score rests on all of "+
			"them; train with another norm", run, o.OverAll())
	case e.steps > 0 && o.Model == "pna":
		return refusal.Errorf("--steps %d: pna counts neighbours among their messages; leave it out, which takes "+
			"gradients times inputs", e.steps)
	}
	return nil
}

// vertexOf is the vertex with that name or, without such a name, with that number.
func vertexOf(text string, names []string, count int) (int32, error) {
	if v := slices.Index(names, text); v >= 0 {
		return int32(v), nil
	}
	v, err := strconv.ParseInt(text, 10, 32)
	switch {
	case err == nil && v >= 0 && int(v) < count:
		return int32(v), nil
	case names != nil:
		return 0, refusal.Errorf("--vertex %s: no vertex has this name%s", text, meant(text, names))
	}
	return 0, refusal.Errorf("--vertex %s: the vertices have the numbers 0 to %d", text, count-1)
}

// meant suggests one of the names.
func meant(text string, names []string) string {
	const most = 100_000 // most names that are compared
	if near := suggest.Nearest(text, first(names, most)); near != "" {
		return "; did you mean " + near + "?"
	}
	return ""
}
