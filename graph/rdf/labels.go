package rdf

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"weft/graph"
	"weft/graph/internal/lines"
	"weft/graph/internal/names"
	"weft/internal/refusal"
	"weft/internal/suggest"
)

// tables collects the labels of entities.
type tables struct {
	entities *names.Table
	classes  *names.Table // in the order of their first appearance
	labelled map[int32]labelled
}

// labelled is a line of a table.
type labelled struct {
	class int32
	path  string
	line  int64
}

// readLabels reads the tables. Without tables there are no labels and no splits.
func (o *Options) readLabels(entities *names.Table) (labels graph.Labels, splits []graph.Split, err error) {
	if o.Train == "" {
		return labels, nil, nil
	}
	t := &tables{entities: entities, classes: names.NewTable(), labelled: map[int32]labelled{}}
	var split graph.Split
	for _, part := range []struct {
		path string
		ids  *[]int64
	}{{o.Train, &split.Train}, {o.Val, &split.Val}, {o.Test, &split.Test}} {
		*part.ids = []int64{}
		if part.path == "" {
			continue
		}
		if *part.ids, err = t.read(part.path, o); err != nil {
			return labels, nil, err
		}
	}
	return t.labels(), []graph.Split{split}, nil
}

// read reads the entities of a table, ascending.
func (t *tables) read(path string, o *Options) (ids []int64, err error) {
	const longest = 64 << 10 // bytes of a line
	form := lines.Form{
		Path: path, Text: "a table, its columns between tabs",
		Line: "a row of a table", Longest: longest,
	}
	var columns []string // names on the first line
	var entity, label int
	err = lines.Each(form, func(line []byte, number int64) error {
		if columns == nil {
			columns = strings.Split(string(line), "\t")
			entity, err = column(columns, "entity", o.Entity)
			if err == nil {
				label, err = column(columns, "label", o.Label)
			}
			return err
		}
		if !utf8.Valid(line) {
			return errors.New("the line is not UTF-8: convert the file, as with iconv -f LATIN1 " +
				"-t UTF-8")
		}
		fields := bytes.Split(line, []byte("\t"))
		if len(fields) != len(columns) {
			return fmt.Errorf("%d columns, where the first line has %d", len(fields), len(columns))
		}
		v, err := t.add(fields[entity], fields[label], labelled{path: path, line: number})
		if err != nil {
			return fmt.Errorf("%.100q %w", fields[entity], err)
		}
		ids = append(ids, int64(v))
		return nil
	})
	switch {
	case err != nil:
		return nil, err
	case columns == nil:
		return nil, refusal.Errorf("%s: is empty: give a table, its columns between tabs and their names "+
			"in the first line", path)
	case len(ids) == 0:
		return nil, refusal.Errorf("%s: has no entity below its first line: give a line for each", path)
	}
	slices.Sort(ids)
	return ids, nil
}

// column returns the number of the column that a flag names.
func column(columns []string, flag, name string) (int, error) {
	k := slices.Index(columns, name)
	if k < 0 {
		return 0, fmt.Errorf("no column is --%s %.40q; %.1000s", flag, name, suggest.OneOf(name, columns))
	}
	if slices.Contains(columns[k+1:], name) {
		return 0, fmt.Errorf("several columns are --%s %.40q: rename all but one", flag, name)
	}
	return k, nil
}

// add adds the label of an entity, at a line.
func (t *tables) add(entity, label []byte, at labelled) (vertex int32, err error) {
	vertex, there := t.entities.Find(entity)
	if !there {
		return 0, errors.New("is no entity of the graph: leave the line out, or give the file of its " +
			"triples too")
	}
	if before, twice := t.labelled[vertex]; twice {
		return 0, fmt.Errorf("has a label already, in %s:%d: leave one of the lines out",
			before.path, before.line)
	}
	if len(label) == 0 {
		return 0, errors.New("has no label: leave the line out")
	}
	at.class, err = t.classes.Number(label)
	t.labelled[vertex] = at
	return vertex, err
}

// labels numbers the classes in the order of their names.
func (t *tables) labels() graph.Labels {
	l := graph.Labels{Classes: len(t.classes.Names), Class: slices.Repeat([]int64{-1}, len(t.entities.Names))}
	names, to := t.classes.Sorted()
	for v, at := range t.labelled {
		l.Class[v] = to[at.class]
	}
	l.Names = names
	return l
}
