package data

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"weft/cmd/weft/internal/ui"
	"weft/graph/tables"
	"weft/internal/refusal"
)

// unclear is a refusal of tables whose columns are not the expected ones, with what they look like.
type unclear struct {
	error
	looks []*tables.Look
}

func (u *unclear) Unwrap() error { return u.error }

// Print prints what the columns look like.
func (u *unclear) Print(out io.Writer) {
	const most = 20 // columns
	for _, l := range u.looks {
		t := ui.NewTable(out)
		t.Row("column of "+l.Path, "looks like", "for example")
		for _, c := range l.Columns[:min(most, len(l.Columns))] {
			t.Row(c.Name, c.Kind, c.Example)
		}
		if more := len(l.Columns) - most; more > 0 {
			t.Row("…", ui.Counted(more, "further column", "further columns"), "")
		}
		t.Flush()
	}
}

// leadOn adds to a refusal of columns what the columns look like, and the command that would work. The
// command begins with begin, and its last argument is store.
func (r *importRequest) leadOn(err error, begin, store string) error {
	if !refusal.Columns.In(err) || r.reader.tables == nil || r.flags.Changed(ColumnsOfFlag) {
		return err
	}
	o := *r.reader.tables
	o.Edges = r.sources
	guess, looks, unread := tables.Guess(o)
	if unread != nil {
		return err // it says which file to mend first
	}
	has := func(l *tables.Look) bool { return l.Has(o.Label) }
	lists, others := looks[:len(r.sources)], looks[len(r.sources):]
	exchanged := guess != nil && len(others) > 0 && !slices.Equal(guess.Edges, o.Edges)
	if at := slices.IndexFunc(lists, has); at >= 0 && o.EdgeLabel == "" && len(others) > 0 && !exchanged &&
		!slices.ContainsFunc(others, has) {
		err = fmt.Errorf("%w; %s is a column of %s, the list of edges, and --%s learns edges", err, o.Label,
			lists[at].Path, EdgeLabelFlag)
		o.EdgeLabel = o.Label
	}
	if guess != nil && o.EdgeLabel != "" { // edges are to be learned
		guess.Label, guess.EdgeLabel = "", o.EdgeLabel
	}
	if guess != nil && !isAsked(guess, &o) {
		lead := "for example"
		switch {
		case len(o.Vertices) == 0 && guess.Edges[0] == o.Edges[0]:
			lead = "with a table of vertices"
		case len(o.Vertices) == 0:
			lead = "with a list of edges"
		}
		err = fmt.Errorf("%w; %s: %s", err, lead, r.commandOf(guess, begin, store))
		if len(o.Vertices) == 0 && o.EdgeLabel == "" && guess.Edges[0] == o.Edges[0] {
			err = fmt.Errorf("%w, or --%s COLUMN to learn edges", err, EdgeLabelFlag)
		}
	}
	return &unclear{err, looks}
}

// isAsked reports whether a guess is what was asked for, so that its command would be refused again.
func isAsked(guess, asked *tables.Options) bool {
	return slices.Equal(guess.Edges, asked.Edges) && slices.Equal(guess.Vertices, asked.Vertices) &&
		slices.Equal(guess.Source, asked.Source) && slices.Equal(guess.Target, asked.Target) &&
		slices.Equal(guess.ID, asked.ID) && guess.Label == asked.Label
}

// commandOf is the command with such tables, and the other given flags.
func (r *importRequest) commandOf(o *tables.Options, begin, store string) string {
	words := []string{begin, refusal.ShellWord(o.Edges[0])}
	if store != "" {
		words = append(words, refusal.ShellWord(store))
	}
	for _, f := range []struct {
		name   string
		values []string
	}{
		{"source", o.Source},
		{"target", o.Target},
		{"vertices-from", o.Vertices},
		{"id", o.ID},
		{"label", []string{o.Label}},
		{EdgeLabelFlag, []string{o.EdgeLabel}},
	} {
		for _, value := range f.values {
			if value != "" {
				words = append(words, "--"+f.name, refusal.ShellFlag(value))
			}
		}
	}
	r.flags.Visit(func(f *pflag.Flag) {
		switch f.Name {
		case "source", "target", "vertices-from", "id", "label", EdgeLabelFlag, ui.QuietFlag:
			return
		}
		if slices.Contains(besideTables, f.Name) || store == "" && f.Name == "split" { // train divides itself
			return
		}
		for _, value := range valuesOf(f) {
			words = append(words, refusal.ShellFlag("--"+f.Name+"="+value))
		}
	})
	return strings.Join(words, " ")
}

// checkLabel refuses tables without a column to learn.
func (r *importRequest) checkLabel() error {
	o := r.reader.tables
	if o == nil || len(o.Vertices) == 0 || o.Label != "" || o.EdgeLabel != "" ||
		r.flags.Changed(ColumnsOfFlag) {
		return nil
	}
	return refusal.Columns.Errorf("--vertices-from %s: no column is to be learned: name one with --label, "+
		"one of the edges with --%s, or learn which edges there are with --task link", o.Vertices[0],
		EdgeLabelFlag)
}

// nextLabelled is the command that learns a column of tables, if none was named when they were imported.
func (r *importRequest) nextLabelled() string {
	var u *unclear
	if !errors.As(r.leadOn(r.checkLabel(), "weft train", ""), &u) {
		return ""
	}
	var few []string
	for _, l := range u.looks[len(r.sources):] {
		few = append(few, l.Labels()...)
	}
	return "before training: " + u.Error() +
		ui.When(few != nil, "; columns of few values: "+strings.Join(few, ", "))
}
