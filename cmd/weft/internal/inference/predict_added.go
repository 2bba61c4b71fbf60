package inference

import (
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"weft/cmd/weft/internal/data"
	"weft/cmd/weft/internal/session"
	"weft/cmd/weft/internal/ui"
	"weft/graph"
	"weft/graph/appended"
	"weft/graph/tables"
	"weft/internal/refusal"
	"weft/partition"
	"weft/train"
	"weft/train/task"
)

// addedGiven is what is added to a graph for a prediction alone.
type addedGiven struct {
	tables.Options
	since string     // the store before an addition that the graph has; empty: none
	later string     // the later graph, in place of which since is opened
	new   [][]string // the names of the new vertices by type, once they have been read
}

// add declares the flags.
func (o *addedGiven) add(flags *pflag.FlagSet) {
	data.AdditionFlags(flags, &o.Options)
	flags.StringVar(&o.since, "since", "", "the `store` before an addition that the graph has: as "+
		"--add-vertices and --add-edges, for what it has besides")
}

// tabled reports whether tables have the additions.
func (o *addedGiven) tabled() bool { return len(o.Vertices)+len(o.Edges) > 0 }

// there reports whether vertices or edges are added to the graph.
func (o *addedGiven) there() bool { return o.tabled() || o.since != "" }

// files are the tables.
func (o *addedGiven) files() []string {
	files := slices.Clone(o.Edges)
	for _, argument := range o.Vertices {
		_, path := tables.Named(argument)
		files = append(files, path)
	}
	return files
}

// names are the names of the graph's vertices of a type, followed by the new ones.
func (o *addedGiven) names(g *graph.Graph, kind int) []string {
	if o.new == nil || o.new[kind] == nil {
		return g.Types[kind].Names
	}
	return slices.Concat(g.Types[kind].Names, o.new[kind])
}

// to is the graph to which things are added, if graph is asked for.
func (o *addedGiven) to(graph string) string {
	if o.since == "" {
		return graph
	}
	o.later = graph
	return o.since
}

// check refuses flags of tables that are not given. elsewhere says that flags of edges are for another list.
func (o *addedGiven) check(elsewhere bool) error {
	if o.since != "" && o.tabled() {
		return refusal.Errorf("--since %s: the store has what is added; leave --add-vertices and "+
			"--add-edges out",
			o.since)
	}
	if elsewhere || !o.there() {
		return nil
	}
	return data.CheckEdgeFlags(&o.Options)
}

// read reads what is added to a graph: tables, or what a later store has in addition.
func (o *addedGiven) read(s *session.Session, g *graph.Graph) (a *appended.Addition, err error) {
	if o.since == "" {
		return tables.Add(o.Options, g)
	}
	b, err := s.Job.Base()
	if err != nil {
		return nil, err
	}
	later, err := graph.Open(o.later)
	if err != nil {
		return nil, err
	}
	defer later.Close()
	err = later.Guard(func() (err error) {
		if a, err = b.Until(later); err != nil {
			err = refusal.Errorf("--since %s: %s is not that store with an addition: %w",
				o.since, o.later, err)
		}
		return err
	})
	return a, err
}

// append reads what is added to the graph, and says what it found. It returns the query of the new vertices,
// of the vertices that can change, or of the new edges whose labels the run has learned.
func (p *predictCommand) append(cmd *cobra.Command, s *session.Session, asked *predictRequest,
	shown *ui.Phases,
) (query train.Query, err error) {
	g, err := s.Graph()
	if err != nil {
		return query, err
	}
	whole := partition.WholeOf(g)
	relation, err := task.RelationOf(asked.Options.Kind, &whole)
	if err != nil {
		return query, err
	}
	if trained := s.Job.Columns(); trained != nil {
		p.added.Like = &tables.Like{Columns: trained}
	}
	if p.added.Progress = shown.Show; relation >= 0 {
		p.added.Learned = g.Relations[relation].Name
		p.added.Scored = ui.When(!s.Job.Options.NewEdgesPass(), p.added.Learned)
	}
	err = g.Guard(func() error {
		a, err := p.added.read(s, g)
		shown.Erase()
		if err == nil && relation >= 0 && len(p.added.Vertices) == 0 {
			err = p.checkEnds(g, a)
		}
		if err != nil {
			return err
		}
		for _, rows := range a.Types {
			p.added.new = append(p.added.new, rows.Names)
		}
		warnings := a.Notes
		if relation < 0 {
			warnings = slices.Concat(warnings, data.OneWays(g, a.Edges))
		}
		tell := func() {
			say(cmd.ErrOrStderr(), "note", a.Reversed)
			say(cmd.ErrOrStderr(), "warning", warnings)
		}
		if relation >= 0 {
			tell()
			query, err = p.scored(s.Job, asked.Options, g, a, relation)
			return err
		}
		b, err := s.Job.Base()
		if err != nil {
			return err
		}
		if query.Appended, err = b.With(a); err != nil {
			return err
		}
		for v := g.Types[0].Count; v < query.Appended.Counts[0]; v++ {
			query.Vertices = append(query.Vertices, int32(v))
		}
		if len(query.Vertices) == 0 && p.vertices == "" && !p.changed {
			return refusal.Errorf("--add-edges: no vertex is new; name those to predict with --vertices, " +
				"or predict all that can differ with --changed")
		}
		tell()
		return nil
	})
	if err == nil && p.changed {
		shown.Show("finding the vertices that can differ", 0, 0)
		query.Vertices, err = findChanged(cmd.Context(), s, query, asked.state)
		shown.Erase()
	}
	return query, err
}
