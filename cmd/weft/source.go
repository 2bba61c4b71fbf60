package main

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"weft/cmd/weft/internal/ui"
	"weft/graph/tables"
	"weft/internal/datasets"
	"weft/internal/refusal"
)

// source is what a command names for a graph: a store, a dataset, or a file or folder that is imported on the
// way, with the flags of tables that were given for it.
type source struct {
	name  string
	flags []*pflag.Flag
	split string // that the import makes; "": none
	train string // the command, if it is one that trains; else ""
	label bool   // it learns the labels of vertices
	like  string // a run or weights whose tables these are like; "": none, or a flag says so
}

// defaultSplit is the split of tables that are trained on as they are.
const defaultSplit = "random:60/20/20"

// given reports whether the flag of that name was given.
func (s source) given(name string) bool {
	return slices.ContainsFunc(s.flags, func(f *pflag.Flag) bool { return f.Name == name })
}

// tablesGiven are the flags of tables on a command that takes a list of edges in the place of a store.
type tablesGiven struct {
	flags *pflag.FlagSet // these; nil: the command has none
	all   *pflag.FlagSet // of the command, which may have declared one for another list of edges, too
}

// tablesHeading is the heading of the flags of tables in the help of other commands than import.
const tablesHeading = "Tables (a list of edges in the place of a store)"

// add adds the flags to a command. Its help lists them if they are shown.
func (t *tablesGiven) add(flags *pflag.FlagSet, shown bool) {
	t.flags = pflag.NewFlagSet(importName, pflag.ContinueOnError)
	tableFlags(t.flags, new(tables.Options), new(string))
	t.flags.VisitAll(func(f *pflag.Flag) {
		f.Annotations, f.Hidden = map[string][]string{flagGroup: {tablesHeading}}, !shown
	})
	flags.AddFlagSet(t.flags)
	t.all = flags
}

// of is the graph of that name, read with the flags. Without flags it is the graph as it is.
func (t *tablesGiven) of(name string) source {
	s := source{name: name}
	if t.flags != nil {
		t.flags.VisitAll(func(f *pflag.Flag) {
			if given := t.all.Lookup(f.Name); given.Changed {
				s.flags = append(s.flags, given)
			}
		})
	}
	return s
}

// check refuses flags of tables beside anything but a list of edges.
func (s source) check() error {
	if len(s.flags) == 0 {
		return nil
	}
	flag := s.flags[0].Name
	if isStore(s.name) || datasets.Named(s.name) != nil {
		return refusal.Errorf("--%s: tells how to read tables, and %s is made already: leave it "+
			"out, or name a list of edges%s", flag, s.name, ui.When(flag == "edge-features",
			"; a model uses the features of the edges with --use-edge-features"))
	}
	if r, found := recognize(s.name); found && r.format != edgesFormat {
		return refusal.Errorf("--%s: is for a list of edges as CSV or Parquet, and %s is imported as %s: "+
			"leave it out", flag, s.name, r.format)
	}
	if s.given("vertices-from") {
		return nil
	}
	for _, name := range ofVertices {
		if s.given(name) {
			return withoutTable(name)
		}
	}
	return nil
}

// arguments accepts between low and high positional arguments, of which the last is a graph. Where several
// lists of edges stand in its place, it says which import makes a graph of them.
func (t *tablesGiven) arguments(low, high int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		given := t.of("")
		if len(args) <= high || !given.given("vertices-from") {
			return arguments(low, high)(cmd, args)
		}
		words := []string{"weft import", edgesFormat}
		for _, list := range args[high-1:] {
			words = append(words, refusal.ShellWord(list))
		}
		words = append(words, "STORE")
		if high > 1 {
			given.like = args[0]
		}
		var r recognition
		given.addTo(&r)
		for _, flag := range r.flags {
			words = append(words, refusal.ShellFlag(flag))
		}
		return refusal.Errorf("%s: a command takes one list of edges in the place of a store; import several "+
			"into a store first: %s", args[high], strings.Join(words, " "))
	}
}

// addTo adds the flags to the import of a source.
func (s source) addTo(r *recognition) {
	for _, f := range s.flags {
		for _, value := range valuesOf(f) {
			r.flags = append(r.flags, "--"+f.Name+"="+value)
			if name, _ := pflag.UnquoteUsage(f); name == "file" {
				value = s.placed(value)
			}
			r.given = append(r.given, "--"+f.Name+"="+value)
		}
	}
	if s.like != "" {
		word := "--" + columnsOfFlag + "="
		r.flags, r.given = append(r.flags, word+s.like), append(r.given, word+s.placed(s.like))
	}
	if s.split != "" {
		word := "--split=" + s.split
		r.flags, r.given = append(r.flags, word), append(r.given, word)
	}
	slices.Sort(r.given)
	r.train, r.label = s.train, s.label
}

// valuesOf are the values of a flag, of which one that is repeated has several. Each is as the flag takes it:
// in a list between commas one that has a comma stands in quotes.
func valuesOf(f *pflag.Flag) []string {
	several, ok := f.Value.(pflag.SliceValue)
	if !ok {
		return []string{f.Value.String()}
	}
	values := slices.Clone(several.GetSlice())
	if f.Value.Type() == "stringSlice" {
		for i, value := range values {
			if strings.ContainsAny(value, ",\"") {
				values[i] = `"` + strings.ReplaceAll(value, `"`, `""`) + `"`
			}
		}
	}
	return values
}

// placed is FILE or TYPE=FILE with the place of the file: relative to the folder of the source if it is below
// that, so that both can be moved, else its absolute path, where it can be had.
func (s source) placed(argument string) string {
	_, path := tables.Named(argument)
	begin := strings.TrimSuffix(argument, path)
	if whole, err := filepath.Abs(path); err == nil {
		path = whole
	}
	folder, err := filepath.Abs(filepath.Dir(s.name))
	if err != nil {
		return begin + path
	}
	if below, err := filepath.Rel(folder, path); err == nil && filepath.IsLocal(below) {
		path = below
	}
	return begin + path
}
