package inference

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"

	"weft/cmd/weft/internal/ui"
	"weft/train/metric"
)

// signed is a contribution for the eye.
func signed(c float64) string { return fmt.Sprintf("%+.4g", c) }

// scored is a score for the eye.
func scored(s metric.Number) string { return fmt.Sprintf("%.4g", float64(s)) }

// subject names the explained vertex or edge.
func (x *explanation) subject() string {
	if e := x.Edge; e != nil {
		return fmt.Sprintf("edge %d, %s → %s", e.Number, e.Source, e.Target)
	}
	return "vertex " + x.Vertex
}

// heading says what is explained.
func (x *explanation) heading() string {
	text := x.subject() + ": " + x.Kind
	if x.Class != "" {
		text += " " + x.Class
	}
	if x.Kind == "value" {
		return text + " is " + scored(x.Score)
	}
	if x.pass.Calibration != nil {
		return text + ", calibrated probability " + scored(x.Score) + ", logit of the model " +
			scored(x.Logit)
	}
	return text + ", probability " + scored(x.Score) + ", logit " + scored(x.Logit)
}

// method says how contributions were found.
func (x *explanation) method() string {
	by := "gradient times input"
	if x.Steps > 0 {
		by = "integrated gradients of " + ui.Counted(x.Steps, "step", "steps")
	}
	return fmt.Sprintf("%s, over %s and %s", by, ui.Counted(x.Counts.Vertices, "vertex", "vertices"),
		ui.Counted(x.Counts.Edges, "edge", "edges"))
}

// Ties says that some edges contribute for others, too; "": there are none.
func (x *explanation) Ties() string {
	if !slices.ContainsFunc(x.edges, func(e explainedEdge) bool { return e.Tied > 0 }) {
		return ""
	}
	return "of equal parallel edges a maximum takes the first, which contributes for all"
}

// secondly says what is left of the score without the removed edges.
func (x *explanation) secondly() string {
	if x.Without == nil {
		return ""
	}
	which := "the edges that are marked"
	if x.Without.Edges == 1 {
		which = "the edge that is marked"
	}
	text := "without " + which + ": " + scored(x.Score) + " → " + scored(x.Without.Score)
	if x.pass.Calibration != nil {
		text += ", logit " + scored(x.Logit) + " → " + scored(x.Without.Logit)
	}
	return text
}

// Print draws the explanation for the eye.
func (x *explanation) Print(out io.Writer) {
	if x.OfVertex != nil {
		count := ui.Counted(x.EdgesOfVertex, "edge", "edges")
		fmt.Fprintf(out, "vertex %s: %s\n", ui.Printable(x.Vertex), count)
		t := ui.NewTable(out)
		t.Row("edge", "", cmp.Or(x.Class, x.Kind))
		for _, e := range x.OfVertex {
			t.Row(fmt.Sprint(e.Number), e.Source+" → "+e.Target, scored(e.Score))
		}
		t.Flush()
		fmt.Fprintln(out)
	}
	fmt.Fprintln(out, ui.Printable(x.heading()))
	fmt.Fprintln(out, x.method())
	if x.OwnFirst() {
		printColumns(out, x.Own())
	}
	if len(x.Edges) > 0 {
		fmt.Fprintln(out)
		t := ui.NewTable(out)
		t.Row("edge", "contributes", "")
		for _, e := range x.Edges {
			t.Row(e.Text(), signed(e.Contribution), ui.When(e.Removed, "*"))
		}
		t.Flush()
		if line := x.Ties(); line != "" {
			fmt.Fprintln(out, line)
		}
	}
	if !x.OwnFirst() {
		printColumns(out, x.Own())
	}
	if len(x.Vertices) > 0 {
		fmt.Fprintln(out)
		t := ui.NewTable(out)
		t.Row("vertex", "contributes", "most of it", "")
		for _, v := range x.Vertices {
			t.Row(v.Text(), signed(v.Contribution), v.Most(), signed(v.OfColumn))
		}
		t.Flush()
		printColumns(out, x.OfVertices())
	}
	if text := x.secondly(); text != "" {
		fmt.Fprintln(out, "\n"+text)
	}
}

// printColumns prints a table of columns, if there are some.
func printColumns(out io.Writer, columns []explainedColumn) {
	if len(columns) == 0 {
		return
	}
	fmt.Fprintln(out)
	t := ui.NewTable(out)
	t.Row("column", "contributes")
	for _, c := range columns {
		t.Row(c.Text(), signed(c.Contribution))
	}
	t.Flush()
}

// Own are the columns of the explained edge's own features, the strongest first.
func (x *explanation) Own() []explainedColumn { return x.columnsOf(true) }

// OfVertices are the columns of features of vertices, the strongest first.
func (x *explanation) OfVertices() []explainedColumn { return x.columnsOf(false) }

func (x *explanation) columnsOf(edge bool) (selected []explainedColumn) {
	for _, c := range x.Columns {
		if c.OfEdge == edge {
			selected = append(selected, c)
		}
	}
	return selected
}

// OwnFirst reports whether a feature of the explained edge itself contributes at least as much as each edge
// that passes messages.
func (x *explanation) OwnFirst() bool {
	own := x.Own()
	return len(own) > 0 &&
		(len(x.Edges) == 0 || math.Abs(own[0].Contribution) >= math.Abs(x.Edges[0].Contribution))
}

// Text is a vertex for the eye.
func (v explainedVertex) Text() string { return ui.Joined(v.Type, v.Vertex) }

// Most names the feature that contributes most.
func (v explainedVertex) Most() string { return fmt.Sprintf("%s = %.4g", v.Column, v.Value) }

// Text is a column for the eye.
func (c explainedColumn) Text() string {
	if c.OfEdge {
		return c.Column + " of the edge itself"
	}
	return ui.Joined(c.Type, c.Column)
}

// Text is an edge for the eye.
func (e explainedEdge) Text() string {
	text := e.Source + " → " + e.Target
	if e.Parallel > 0 {
		text += fmt.Sprintf(" (%d)", e.Parallel+1)
	}
	return ui.Joined(e.Relation, text)
}
