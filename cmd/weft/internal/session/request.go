package session

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"weft/cmd/weft/internal/cli"
	"weft/cmd/weft/internal/data"
	"weft/cmd/weft/internal/ui"
	"weft/gnn"
	"weft/graph"
	"weft/graph/columns"
	"weft/graph/datasets"
	"weft/internal/refusal"
	"weft/nn"
	"weft/train"
	"weft/train/calibrate"
	"weft/train/rundir"
	"weft/train/setting"
	"weft/train/task"
)

// Request is the model and the graph for which predict, evaluate and serve are asked.
type Request struct {
	Options *setting.Resolved
	Run     string         // the run's directory; empty: --init names the weights
	Learned learnedClasses // the classes of the run; its Store is empty if unknown
	Weights string
	Columns columns.ByType   // the columns on which the weights were trained; nil: they do not say
	Graph   string           // a dataset or a store
	Tables  data.TablesGiven // the tables of a graph in place of the run's
	// Changed says that the run's own graph has other vertices than when it was trained on, or other edges if
	// labels of edges are learned. The split that was drawn then is not drawn again, as training vertices
	// would be among the test vertices.
	Changed bool
	// Passed says which edges passed messages in the run; nil: it has learned no labels of edges.
	Passed *task.Passed
	// rule is the rule of the run's split by a column of edges; "": there is none.
	rule string
	// graphID is the ID of the graph on which the run was trained; "": unknown.
	graphID string
	// replaced is the result of the comparison of the graph, which is made once: it may read the whole graph.
	replaced   bool
	compared   string
	provenance string // of the graph on which the run was trained; "": unknown
	// relations are the relations on which the run was trained, in their order; nil: there was one, or they
	// are unknown.
	relations       []string
	calibrate.Found // the run's calibration and thresholds
	// Weighted says that the edges on which the run trained have weights.
	Weighted bool
}

// Source is the graph, with the flags of its tables. The tables are read like those on which the weights were
// trained, and edges are added as to the run's graph.
func (r *Request) Source() data.Source {
	s := r.Tables.Source(r.Graph)
	if r.Columns != nil && s.Given("vertices-from") && !s.Given(data.ColumnsOfFlag) {
		s.Like = cmp.Or(r.Run, r.Weights)
	}
	return s.AddingAs(r.provenance)
}

// Rows says, to people, of what the run has learned labels.
func (r *Request) Rows() string {
	if r.Passed != nil {
		return "edges"
	}
	return "vertices"
}

// RequestOf is what a run asks for by itself, with its settings: predictions of its own graph, or of the
// graph that args name after the run.
func RequestOf(args []string) (asked Request, o setting.Options, run rundir.Run, err error) {
	if run, o, asked.Weights, err = rundir.Read(args[0]); err != nil {
		return asked, o, run, err
	}
	o.LeaveCards() // unless cards are asked for: a run may be on another machine now
	asked.Run, asked.Graph = args[0], run.Store
	asked.Learned = learnedClasses{run.Store, run.ClassNames, o.EdgeLabel}
	asked.Found = run.Found
	err = run.Fits(run.Summary.Graph.Classes)
	if run.Calibration == nil && o.Calibrate != calibrate.None {
		err = refusal.Damaged("it has no calibration, and its setting calibrate is %s; train the run again", o.Calibrate)
	}
	if err != nil {
		return asked, o, run, fmt.Errorf("%s: %w", filepath.Join(args[0], "run.json"), err)
	}
	asked.relations, asked.Weighted = run.Summary.Graph.Relations, run.Summary.Graph.Weighted
	asked.provenance = run.Provenance
	if len(args) == 2 {
		asked.Graph = args[1]
	}
	own := len(args) == 1 || cli.SameFile(args[1], run.Store)
	if own {
		asked.graphID = run.GraphID
	}
	asked.divide(&o, &run, own)
	return asked, o, run, nil
}

// divide has edges pass messages as in the run. Of the run's split it keeps what divides the graph asked for:
// a rule of a column of edges divides any graph with the column. Others were drawn from the run's own graph,
// as it was.
func (r *Request) divide(o *setting.Options, run *rundir.Run, own bool) {
	if r.Passed = run.Passed; o.Task == task.Edge && r.Passed == nil { // all did in that version
		r.Passed = &task.Passed{Messages: task.PassAll}
	}
	o.AsPassed(r.Passed)
	rule := o.Split.Rule
	if r.Passed != nil {
		rule = cmp.Or(rule, r.Passed.Rule)
	}
	if rule == "" {
		return
	}
	if parsed, _ := graph.ParseSplit(rule); parsed.By().Column != "" {
		r.rule = rule
		by, err := splitBy(rule, r.Graph, o.EdgeLabel)
		switch {
		case err != nil && own: // whoever opens it says why
		case by == nil:
			o.Split.Rule, r.Changed = "", own
		case by.Rule != rule && (own || by.Rule == ""):
			o.Split = task.Split{Rule: rule}
		}
		return
	}
	replaced, err := r.isReplaced()
	counts := &run.Summary.Graph
	vertices, unread := graph.VerticesIn(run.Store)
	changed := unread == nil && vertices != counts.Vertices
	if edges, unread := graph.EdgesIn(run.Store); unread == nil && o.Task == task.Edge {
		changed = changed || edges != counts.Edges
	}
	// If it cannot be read, whoever opens it says why.
	r.Changed = own && (replaced && err == nil || changed)
	if !own || r.Changed {
		o.Split.Rule = ""
	}
}

// splitBy is the column of a store's edges that a split's rule divides; nil: the store does not keep it.
func splitBy(rule, store, edgeLabel string) (*graph.SplitBy, error) {
	parsed, err := graph.ParseSplit(rule)
	if err != nil {
		return nil, err
	}
	asked := parsed.By()
	by, err := graph.SplitByIn(store, edgeLabel)
	if by == nil || by.Column != asked.Column || (by.Kind == graph.ByPart) != (asked.Kind == graph.ByPart) {
		return nil, err
	}
	return by, err
}

// DivideStore divides a store that was made from tables on the way by the run's split by a column of edges,
// if the store has that column.
func (r *Request) DivideStore(o *setting.Options, store string) error {
	if r.rule == "" || o.Split.Rule != "" || store == r.Graph {
		return nil
	}
	by, err := splitBy(r.rule, store, o.EdgeLabel)
	if by != nil {
		o.Split = task.Split{Rule: r.rule}
	}
	return err
}

// Divided says in a line by which dates a graph is measured whose dates differ from the run's; "": they are
// the same, or there are none.
func (r *Request) Divided(o *setting.Options, store string) (note string, err error) {
	by, err := graph.SplitByIn(store, o.EdgeLabel)
	if r.rule == "" || err != nil || by == nil || by.Rule == "" || by.Rule == r.rule {
		return "", err
	}
	if o.Split.Rule == "" {
		return fmt.Sprintf("%s is divided by its own --split %s, and the run by %s, whose training edges may be among "+
			"its test edges", r.Graph, by.Rule, r.rule), nil
	}
	return fmt.Sprintf("%s is divided by the run's --split %s; --split 0 measures its own, %s", r.Graph, r.rule,
		by.Rule), nil
}

// CheckTables refuses a list of edges alone if the weights were trained on columns of tables.
func (r *Request) CheckTables() error {
	if s := r.Source(); r.Columns == nil || s.Given("vertices-from") || !s.IsList() {
		return nil
	}
	return refusal.Errorf("%s: a list of edges alone, and %s was trained on columns of a table of vertices: give that of "+
		"these vertices, --vertices-from TABLE%s", r.Graph, cmp.Or(r.Run, r.Weights),
		ui.When(r.Passed != nil, "; or "+r.addEdges()))
}

// addEdges says how the edges of a list are scored over the run's own graph.
func (r *Request) addEdges() string {
	return fmt.Sprintf("weft predict %s --add-edges %s scores its edges over the graph of the run",
		refusal.ShellWord(cmp.Or(r.Run, "RUN")), refusal.ShellWord(r.Graph))
}

// CheckDivides refuses a store that was made from tables on the way, and has no edges over which the run's
// split by a column scores others.
func (r *Request) CheckDivides(o *setting.Options, store string) error {
	if r.rule == "" || r.Passed.Messages != task.PassEarlier {
		return nil
	}
	divided := *o
	if err := r.DivideStore(&divided, store); err != nil {
		return err
	}
	if divided.Split.Rule == "" {
		return refusal.Errorf("%s: has no labels %s that --split %s of %s divides, by which edges pass messages to later "+
			"ones: %s", r.Graph, o.EdgeLabel, r.rule, r.Run, r.addEdges())
	}
	g, err := graph.Open(store)
	if err != nil {
		return err
	}
	defer g.Close()
	if err := divided.Divide(g); err != nil {
		return fmt.Errorf("%w; or %s", err, r.addEdges())
	}
	return nil
}

// isReplaced reports whether another graph has replaced the run's own: neither the graph on which it was
// trained nor a later version of it.
func (r *Request) isReplaced() (is bool, err error) {
	if r.compared == "" || r.compared != r.Graph {
		if r.replaced, err = Replaced(r.Graph, r.graphID); err == nil {
			r.compared = r.Graph
		}
	}
	return r.replaced, err
}

// Replaced reports whether a store is neither the one with that ID nor a later version of it. An empty ID,
// from an earlier version of weft, tells nothing.
func Replaced(store, id string) (bool, error) {
	if id == "" {
		return false, nil
	}
	is, _, err := graph.IsVersion(store, id)
	return err == nil && !is, err
}

// WarnChanged warns if another graph has replaced the run's own, or if the files from which that graph was
// made have changed since.
func (r *Request) WarnChanged(command string, notes io.Writer) error {
	if changed := datasets.Outdated(r.Graph); len(changed) > 0 {
		source := datasets.RecordedFiles(r.Graph)[0]
		fmt.Fprintf(notes, "weft: warning: %s: has changed since %s was made of it, and the predictions are of the graph "+
			"as it was then; weft %s %s %s, with the flags of tables, reads it as it is now\n",
			ui.Printable(refusal.List(changed, 3)), ui.Printable(r.Graph), command,
			ui.Printable(refusal.ShellWord(r.Run)), ui.Printable(refusal.ShellWord(source)))
	}
	replaced, err := r.isReplaced()
	if replaced {
		fmt.Fprintf(notes, "weft: warning: %s: is another graph than %s was trained on; the predictions are of the "+
			"graph as it is now\n", ui.Printable(r.Graph), ui.Printable(r.Run))
	}
	return err
}

// HasGraph refuses the run's own graph if the run names none, or it is gone, unless args name another graph.
func (r *Request) HasGraph(command string, args []string) error {
	record := filepath.Join(args[0], "run.json")
	give := "weft " + command + " " + refusal.ShellWord(args[0]) + " STORE"
	switch _, err := os.Stat(r.Graph); {
	case len(args) == 2:
	case r.Graph == "":
		return refusal.Errorf("%s names no store, as the graph was made in memory; give one: %s", record, give)
	case err != nil:
		return refusal.Errorf("%s names %s, which is not there; give the store: %s", record, r.Graph, give)
	}
	return nil
}

// ReadWeights reads the weights, and on which columns they were trained.
func (r *Request) ReadWeights() (weights nn.State, err error) {
	if weights, err = nn.ReadState(r.Weights); err == nil {
		r.Columns, err = rundir.ColumnsOf(r.Weights)
		return weights, err
	}
	if r.Run != "" {
		err = fmt.Errorf("%w; put the weights of the run there, or train again: weft train STORE --config %s",
			err, refusal.ShellWord(filepath.Join(r.Run, "run.yaml")))
	}
	return nil, err
}

// MatchRelations refuses a store whose relations, or their order, differ from those on which R-GCN was
// trained, because its weights know them only by number.
func (r *Request) MatchRelations(store string) error {
	if r.Options.Model != "rgcn" || r.relations == nil {
		return nil
	}
	names, err := graph.RelationsIn(store)
	if err == nil && !slices.Equal(names, r.relations) {
		err = refusal.Errorf("%s: its relations are %s, and the weights of %s are for %s, in this order; import its "+
			"edges under these names and in this order", r.Graph, strings.Join(names, ", "), r.Run,
			strings.Join(r.relations, ", "))
	}
	return err
}

// Fits has the job bring the features of its graph into the form that the weights expect. It refuses weights
// with another program's names, and weights for other features.
func (r *Request) Fits(job *train.Job, weights nn.State, notes io.Writer) error {
	err := data.TrainedOn(job, r.Columns, cmp.Or(r.Run, r.Weights), r.Graph, notes)
	if err != nil {
		return err
	}
	whole := job.Counts()
	features := whole.Types[0].FeatureColumns
	names := slices.Sorted(maps.Keys(weights))
	if len(names) > 0 && r.Options.Program.Path == "" && !slices.ContainsFunc(names, gnn.OfLayer) {
		return refusal.Errorf("%s: the weights hold %s, where names like convs.0.bias were expected; "+
			"rename them as PyTorch Geometric's models do",
			r.Weights, names[0])
	}
	if features == 0 {
		features = r.Options.NodeEmbedding // they are learned
	}
	n, outputs := r.Options.Widths(weights)
	if more := r.Options.InputColumns(features, outputs) - features; n > 0 && n != features+more {
		return refusal.Errorf("%s has %s, the weights of %s are for %s; %s",
			r.Graph, ui.Counted(features, "feature", "features"), r.Weights, ui.Count(n-more),
			r.sameFeatures(n-more))
	}
	return nil
}

// sameFeatures is the way out if a graph has another number of features than the weights.
func (r *Request) sameFeatures(number int) string {
	these := ui.Counted(number, "feature", "features")
	switch {
	case r.Learned.Store == "":
		return "give a store with the " + these + " that they were trained on, in the same order"
	case cli.SameFile(r.Learned.Store, r.Graph):
		return "the store has changed since " + r.Run + " was trained on it: give one with the " + these +
			" of then, in the same order, or train again"
	}
	return "give a store with the " + these + " of " + r.Learned.Store + ", which " + r.Run +
		" was trained on, in the same order"
}

// AdmitsAddition refuses settings with which nothing can be added to the graph.
func (r *Request) AdmitsAddition() error {
	switch o := r.Options; {
	case o.Workers > 1:
		return refusal.Errorf("--add-vertices and --add-edges: one worker answers, and the mesh has %d; "+
			"give --parallel graph=1", o.Workers)
	case o.OverAll() != "":
		return refusal.Errorf("--add-vertices and --add-edges: %s takes its mean over all "+
			"vertices, so that each addition changes every prediction; import the whole again and predict all", o.OverAll())
	}
	return nil
}
