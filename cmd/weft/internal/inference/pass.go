package inference

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/spf13/cobra"

	"weft/cmd/weft/internal/cli"
	"weft/cmd/weft/internal/data"
	"weft/cmd/weft/internal/session"
	"weft/cmd/weft/internal/ui"
	"weft/graph"
	"weft/internal/refusal"
	"weft/nn"
	"weft/partition"
	"weft/train"
	"weft/train/predictions"
	"weft/train/rundir"
	"weft/train/setting"
	"weft/train/task"
)

// pass is a prediction pass: the weights of a run, the graph that they meet, and what its rows and columns
// stand for.
type pass struct {
	predictions.Table
	asked   *session.Request
	opened  *session.Session
	weights nn.State
	graph   *graph.Graph
	target  graph.Target // the rows that are predicted
	numbers int          // how many numbers a row has: classes, labels or values
}

// openPass opens the run and the graph that arguments name, on one worker whatever the mesh of the run was.
// check may refuse the run, before its weights are read.
func openPass(cmd *cobra.Command, args []string, settings *cli.SettingFlags, tables data.TablesGiven,
	outputs cli.Outputs, check func(*setting.Resolved) error,
) (p pass, err error) {
	asked, o, _, err := session.RequestOf(args)
	if err == nil {
		err = asked.HasGraph(cmd.Name(), args)
	}
	if err != nil {
		return p, err
	}
	asked.Tables = tables
	o.Parallel, o.Partitions, o.Offload = "", 0, ""
	o.ResetOtherAxes(func(string) bool { return false })
	if err = settings.Override(&o); err == nil {
		asked.Options, err = cli.Resolved(&o, settings.GivenNames()...)
	}
	if err == nil {
		err = cmp.Or(outputs.Check(rundir.Paths(asked.Run)...), check(asked.Options))
	}
	if err != nil {
		return p, err
	}
	weights, err := asked.ReadWeights()
	if err != nil {
		return p, err
	}
	opened, err := open(cmd, cli.Alone(), &asked, weights, outputs, "")
	if err != nil {
		return p, err
	}
	if p, err = newPass(&asked, opened, weights, false); err != nil {
		opened.Close()
	}
	return p, err
}

// open opens the graph in the form that the weights expect, with the classes that they know. It refuses
// outputs that are files of the graph, or of the store later.
func open(cmd *cobra.Command, r cli.Ranks, asked *session.Request, weights nn.State, outputs cli.Outputs,
	later string,
) (*session.Session, error) {
	notes := cmd.ErrOrStderr()
	admit := func(store string) error {
		err := outputs.CheckApartFromGraph(asked.Graph, store)
		if err == nil && later != "" {
			err = outputs.CheckApartFromGraph(later, later)
		}
		return err
	}
	check := func(g *graph.Graph) error { return asked.Fits(&train.Job{Graph: g}, weights, io.Discard) }
	opened, err := session.Open(cmd.Context(), r, asked.Source(), asked.Options, notes,
		session.Opening{Admit: admit, Check: check})
	if err != nil {
		return nil, err
	}
	asked.AllowUnlabelled(opened)
	if err = asked.MatchRelations(opened.Store); err == nil {
		err = asked.Fits(opened.Job, weights, notes)
	}
	if err == nil {
		err = asked.MatchClasses(opened, notes)
	}
	if err == nil && r.First() {
		err = asked.WarnChanged(cmd.Name(), notes)
	}
	if err := r.Together(err); err != nil {
		opened.Close()
		return nil, err
	}
	return opened, nil
}

// newPass is a pass over an open graph. hidden says that the input of the last layer is asked for.
func newPass(asked *session.Request, opened *session.Session, weights nn.State, hidden bool,
) (p pass, err error) {
	g, err := opened.Graph()
	if err != nil {
		return p, err
	}
	p = pass{asked: asked, opened: opened, weights: weights, graph: g, target: asked.Options.Target(g)}
	if asked.Options.Task == task.Edge {
		p.Edges, err = edgeEnds(g, &asked.Options.Goal)
	} else {
		p.Table, err = EmbeddingsOf(asked.Options, g, hidden)
	}
	return p, data.About(opened.Source, err)
}

// failed is the error of a pass, which is interrupted if a signal has ended it; nil: there is none.
func failed(asked *session.Request, opened *session.Session, err, interrupted error) error {
	if err == nil {
		return nil
	}
	if refusal.Weights.In(err) && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("%s: %w", asked.Weights, session.Advised(err))
	}
	return opened.Failed(err, interrupted)
}

// warnOfWeights warns if a model that reads the edges' weights meets a graph without them, and its run had
// them, or the other way round.
func warnOfWeights(
	to io.Writer, o *setting.Resolved, run string, trained bool, store string, g *graph.Graph,
) {
	there := slices.ContainsFunc(g.Relations, func(r graph.Relation) bool { return r.Weights != nil })
	if !o.ReadsWeights() || there == trained {
		return
	}
	text := "has edge weights, and %s was trained without any; give a graph without, or train on one " +
		"with weights"
	if trained {
		text = "has no edge weights, and %s was trained with some: here each edge weighs 1; give a graph " +
			"with weights"
	}
	fmt.Fprintf(to, "weft: warning: %s "+text+"\n", ui.Printable(store), ui.Printable(run))
}

// edgeEnds says what rows of the edges that a goal learns stand for: the graph's own edges.
func edgeEnds(g *graph.Graph, goal *task.Goal) (*predictions.EdgeEnds, error) {
	r := g.Relation(goal.Target(g))
	if r == nil {
		return nil, refusal.Graph.Errorf("its edges have no labels %s, which the run has learned; give the store that "+
			"it was trained on", goal.EdgeLabel)
	}
	if len(r.Sources) > math.MaxInt32 {
		return nil, refusal.Errorf("%d edges, and a table has at most %d", len(r.Sources), math.MaxInt32)
	}
	rows := &predictions.EdgeEnds{Columns: r.EndColumns, Ends: func(edge int) [2]int32 {
		source, target := r.EndsOf(int64(edge))
		return [2]int32{source, target}
	}}
	source, target, _ := g.Joins(r) // the graph has passed Check
	for k, kind := range []int{source, target} {
		rows.Names[k] = g.Types[kind].Names
		if name := rows.Columns[k]; name == "" || predictions.Reserved(name) {
			rows.Columns[k] = []string{"source", "target"}[k]
		}
	}
	return rows, nil
}

// standFor finds what the numbers of classes, labels or values stand for. It reports whether weights or
// labels tell it.
func (p *pass) standFor() bool {
	if p.numbers = nn.UnitsIn(p.weights); p.numbers > 0 {
		p.Columns = predictions.Values
		return true
	}
	learned := p.learned()
	if p.Columns = predictions.Logits; learned.MultiLabel() {
		p.Columns = predictions.LabelLogits
	}
	if p.Classes = p.asked.Learned.Names; p.Classes == nil {
		p.Classes = learned.Names
	}
	p.numbers, p.Calibration = max(learned.Classes, len(p.Classes)), p.asked.Calibration
	return learned.There() || p.asked.Learned.Names != nil
}

// learned are the labels of the graph on which the run was trained. If that graph is gone, they are those of
// the graph at hand.
func (p *pass) learned() graph.Labels {
	here := p.graph.Frame(p.target).Labels
	if p.asked.Learned.Store == "" {
		return here
	}
	g, err := graph.Open(p.asked.Learned.Store)
	if err != nil {
		return here
	}
	defer g.Close()
	return g.Frame(p.asked.Options.Target(g)).Labels
}

// scores has a table of edges give a score for each class, unless other answers are asked for.
func (p *pass) scores() {
	if p.Edges != nil && p.Answers == nil && p.Columns == predictions.Logits {
		p.Answers = []predictions.Answer{predictions.Class, predictions.AllProbabilities}
	}
}

// EmbeddingsOf says to what the rows of embeddings belong: to the first vertex type, or to the types that a
// task embeds. hidden says that the input of the last layer is asked for.
func EmbeddingsOf(o *setting.Resolved, g *graph.Graph, hidden bool) (t predictions.Table, err error) {
	t = predictions.Table{Columns: predictions.Embedding, Names: g.Types[0].Names}
	kinds, err := o.Kind.Types(partition.All(g))
	if kinds == nil || err != nil {
		return t, err
	}
	if hidden && o.Layers == 1 {
		return t, refusal.Errorf("--embeddings: a model with one layer has no hidden layer, and vertex " +
			"types have different features; leave it out")
	}
	t.Names = nil
	for _, kind := range kinds {
		typ := g.Types[kind]
		t.Types = append(t.Types, predictions.Type{Name: typ.Name(), Count: typ.Count, Names: typ.Names})
	}
	return t, nil
}
