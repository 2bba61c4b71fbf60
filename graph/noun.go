package graph

// Noun is what texts call a row of a Frame.
type Noun struct{ One, Many string }

// The rows of vertex types and of relations.
var (
	VertexNoun = Noun{"vertex", "vertices"}
	EdgeNoun   = Noun{"edge", "edges"}
)

// A is one row, with its article.
func (n Noun) A() string {
	if n == EdgeNoun {
		return "an " + n.One
	}
	return "a " + n.One
}

// Noun is what texts call the rows of the labels: labels of edges have a Column.
func (l *Labels) Noun() Noun {
	if l.Column != "" {
		return EdgeNoun
	}
	return VertexNoun
}

// rowFiles are the files of labels and splits in the folder of a vertex type or of a relation.
type rowFiles struct {
	labels, classNames string
	parts              [3]string
}

// files are the files of the labels, and of the splits beside them.
func (l *Labels) files() rowFiles {
	if l.Noun() == EdgeNoun {
		return rowFiles{edgeLabelsFile, edgeClassNamesFile, edgePartFiles}
	}
	return rowFiles{labelsFile, classNamesFile, splitFiles}
}
