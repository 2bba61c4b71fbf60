// Package session opens what a command works on: a graph with its partitions, a run and its weights. The
// commands that train, plan and predict call it.
package session

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"weft/cmd/weft/internal/ui"
	"weft/graph"
	"weft/internal/refusal"
	"weft/partition"
	"weft/train/task"
)

// learnedClasses are the classes of the labels on which a model was trained.
type learnedClasses struct {
	Store string   // the store of the graph with these labels, which may be gone
	Names []string // the names that a run recorded; nil: the graph in Store has them, or there are none
	edges string   // the column of the labels of edges; "": vertices have labels
}

// match numbers the classes of the labels of a graph, called store, like these, by their names. unknown are
// classes that were not learned, whose rows become unlabelled. It notes if classes can be matched only by
// numbers.
func (c learnedClasses) match(notes io.Writer, store string, g *graph.Graph, rows graph.Target,
) (unknown []string, err error) {
	frame, names := g.Frame(rows), c.Names
	l := &frame.Labels
	learned, err := graph.Open(c.Store)
	values := l.Continuous()
	if err != nil {
		if l.Names != nil && names == nil {
			fmt.Fprintf(notes, "weft: warning: the classes of %s are taken for those of the run by "+
				"their order, as its graph %s is not there to compare their names\n",
				ui.Printable(store), ui.Printable(c.Store))
		}
		if names == nil {
			return nil, nil
		}
	} else {
		defer learned.Close()
		was := &learned.Frame(learned.Target(c.edges)).Labels
		values = values || was.Continuous()
		if l.MultiLabel() != was.MultiLabel() {
			return nil, refusal.Errorf("%s: %s has one class in this graph or in %s, which the run "+
				"was trained on, and several labels in the other; give a graph with labels like those",
				store, rows.Kind.Noun().A(), c.Store)
		}
		if names == nil {
			names = was.Names
		}
	}
	if (l.Names == nil) != (names == nil) && !values {
		fmt.Fprintf(notes, "weft: note: %s and %s, which was trained on: the classes of one of them alone "+
			"have names, and so they are compared by their numbers\n", ui.Printable(store),
			ui.Printable(c.Store))
	}
	err = g.Guard(func() error {
		unknown = frame.Renumber(names)
		return nil
	})
	return unknown, err
}

// Warn is match. It also warns of classes that were not learned.
func (c learnedClasses) Warn(notes io.Writer, store string, g *graph.Graph, rows graph.Target) error {
	unknown, err := c.match(notes, store, g, rows)
	if len(unknown) > 0 {
		fmt.Fprintf(notes, "weft: warning: %s: %s none of the %s that were learned; such %s "+
			"count as unlabelled\n", ui.Printable(store), classNames(unknown),
			ui.Counted(len(g.Frame(rows).Labels.Names), "class", "classes"), rows.Kind.Noun().Many)
	}
	return err
}

// MatchClasses numbers the classes of a session's labels as the run learned them. Labels of another kind are
// not compared; they are refused if they are input of the model.
func (r *Request) MatchClasses(s *Session, notes io.Writer) error {
	replaced, err := r.isReplaced()
	if r.Learned.Store == "" || r.Learned.Store == s.Store && !replaced || r.Options.Task == task.Link {
		return err
	}
	return s.matchClasses(func(g *graph.Graph) error {
		if r.Options.Task == task.Edge {
			r.leaveOtherClasses(notes, s.Store, g)
			return nil
		}
		if !g.Types[0].Labels.There() || g.Types[0].Labels.Continuous() {
			return nil
		}
		err := r.Learned.Warn(notes, s.Store, g, graph.Target{})
		if refusal.Is(err) && r.Options.LabelInput == 0 {
			fmt.Fprintf(notes, "weft: warning: the predictions are not compared with labels: %v\n", err)
			g.Types[0].Labels, err = graph.Labels{}, nil
		}
		return err
	})
}

// leaveOtherClasses leaves out the labels of edges if their classes are not the learned ones in the same
// order.
func (r *Request) leaveOtherClasses(notes io.Writer, store string, g *graph.Graph) {
	relation := g.Relation(r.Options.Target(g))
	if relation == nil || relation.Labels.Continuous() ||
		slices.Equal(relation.Labels.Names, r.Learned.Names) {
		return
	}
	fmt.Fprintf(notes, "weft: warning: %s: the predictions are not compared with labels: %s has other classes than "+
		"those that were learned, or these in another order\n", ui.Printable(store),
		ui.Printable(r.Options.EdgeLabel))
	relation.Labels = graph.Labels{Column: relation.Labels.Column}
}

// AllowUnlabelled lets the edges of a graph without labels stand for those that the run has learned, as a
// prediction needs no labels: the edges of the only relation, or of the relation that has labels in the run's
// graph. It does not change stored partitions.
func (r *Request) AllowUnlabelled(s *Session) {
	g := s.Job.Graph
	if r.Options.Task != task.Edge || g == nil {
		return
	}
	labelled := func(r graph.Relation) bool { return r.HasLabels() }
	if slices.ContainsFunc(g.Relations, labelled) {
		return
	}
	relation := 0
	if len(g.Relations) > 1 {
		relation = r.relationLike(g)
	}
	if relation >= 0 {
		g.Relations[relation].Labels.Column = r.Options.EdgeLabel
	}
}

// relationLike is the number of the relation that has labels in the run's graph; −1: there is none.
func (r *Request) relationLike(g *graph.Graph) int {
	learned, err := graph.Open(r.Learned.Store)
	if err != nil {
		return -1
	}
	defer learned.Close()
	like := learned.Relation(r.Options.Target(learned))
	return slices.IndexFunc(g.Relations, func(rel graph.Relation) bool {
		return like != nil && rel.Source == like.Source && rel.Name == like.Name && rel.Target == like.Target
	})
}

// classNames names classes as the subject of a sentence, the first ones if there are many.
func classNames(names []string) string {
	const several = 3
	var quoted []string
	for _, name := range names[:min(len(names), several)] {
		quoted = append(quoted, fmt.Sprintf("%.40q", name))
	}
	list := strings.Join(quoted, ", ")
	if more := len(names) - several; more > 0 {
		list += fmt.Sprintf(" and %s more", ui.Count(more))
	}
	if len(names) == 1 {
		return "class " + list + " is"
	}
	return "classes " + list + " are"
}

// matchClasses has match number the classes of the session's graph, and numbers those of its partitions in
// the same way.
func (s *Session) matchClasses(match func(*graph.Graph) error) error {
	g, err := s.Graph()
	if err == nil {
		err = match(g)
	}
	if err != nil || s.Job.Parts == nil {
		return err
	}
	names := g.Types[0].Labels.Names
	s.changeParts(func(whole *partition.Whole) {
		whole.Classes, whole.Splits = g.Types[0].Labels.Classes, graph.SizesOf(g.Types[0].Splits)
	}, func(v *partition.Values) {
		v.Renumber(names)
	})
	return nil
}
