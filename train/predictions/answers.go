package predictions

import (
	"slices"
	"strconv"
	"strings"

	"weft/internal/refusal"
	"weft/internal/suggest"
)

// Answer is a kind of answer that a table gives for each vertex, in one column or several.
type Answer string

// The answers that a table may give.
const (
	Vertex           Answer = "vertex"        // its number in the graph
	Name             Answer = "name"          // its name, where vertices have names
	vertexType       Answer = "type"          // its type, where there are several
	edgeNumber       Answer = "edge"          // for edges: the number in the store
	edgeRow          Answer = "row"           // for added edges: the row of the file, from 0
	sourceEnd        Answer = "source"        // for edges: the name of the source
	targetEnd        Answer = "target"        // for edges: the name of the target
	Class            Answer = "class"         // the likeliest, by name or number; of several labels all
	Probability      Answer = "probability"   // of the answer Class
	Margin           Answer = "margin"        // p₁ − p₂: the largest probability less the second largest
	Entropy          Answer = "entropy"       // −Σ p ln p over the classes, in nats: 0 to ln C
	AllProbabilities Answer = "probabilities" // of each class, or of each label
	Value            Answer = "value"         // each of the values to predict
	Hidden           Answer = "embedding"     // the input of the last layer
	Change           Answer = "change"        // the largest difference of a probability or value to before
)

// Reserved reports whether a table of edges may have a column of that name beside those of the ends.
func Reserved(name string) bool {
	for _, prefix := range []Answer{Probability, Value, Hidden, "old"} { // these have columns of many names
		if strings.HasPrefix(name, string(prefix)+"_") {
			return true
		}
	}
	return slices.Contains(answers, Answer(name)) || name == string(edgeNumber) || name == string(edgeRow)
}

// answers are all answers, in the order in which messages name them.
var answers = []Answer{
	Class, Probability, Margin, Entropy, AllProbabilities, Value, Hidden, Change, Vertex, Name,
}

// ofEdge are the answers that only a table of edges gives.
var ofEdge = []Answer{edgeNumber, edgeRow, sourceEnd, targetEnd}

// Number is the answer that tells which edge a row is of: its number in the graph, or its row in the file.
func (e *EdgeEnds) Number() Answer {
	if e.Added {
		return edgeRow
	}
	return edgeNumber
}

// answer is the answer that a word of --columns means. Columns of ends have names of their own.
func (e *EdgeEnds) answer(word Answer) Answer {
	switch string(word) {
	case e.Columns[0]:
		return sourceEnd
	case e.Columns[1]:
		return targetEnd
	}
	return word
}

// check refuses a word that names no column of a table of edges. Check refuses words of other answers.
func (e *EdgeEnds) check(word Answer, leading []Answer) error {
	words := append([]string{string(e.Number())}, e.Columns[:]...)
	switch a := e.answer(word); {
	case slices.Contains(leading, a):
		return nil
	case a == Vertex || a == Name:
		return refusal.Errorf("--columns %s: the rows are edges; give some of %s", word,
			strings.Join(words, ", "))
	case a == edgeNumber:
		return refusal.Errorf("--columns %s: new edges have no number in the graph; give %s, that of the file",
			word, edgeRow)
	case a == edgeRow:
		return refusal.Errorf("--columns %s: the edges are the graph's own; give %s, their number there", word,
			edgeNumber)
	case !slices.Contains(answers, a) && !a.single():
		return refusal.Errorf("--columns %s: unknown; %s", word,
			suggest.OneOf(string(word), slices.Concat(words, texts(answers[:slices.Index(answers, Vertex)]))))
	}
	return nil
}

// asked are the answers that are asked for. It is nil if none are.
func (t *Table) asked() []Answer {
	if t.Edges == nil || t.Answers == nil {
		return t.Answers
	}
	asked := slices.Clone(t.Answers)
	for i, word := range asked {
		asked[i] = t.Edges.answer(word)
	}
	return asked
}

// Given are the answers that columns of a kind can give.
func Given(c Columns) []Answer {
	switch c {
	case Logits, Probabilities:
		return []Answer{Class, Probability, Margin, Entropy, AllProbabilities, Hidden}
	case LabelLogits:
		return []Answer{Class, AllProbabilities, Hidden}
	case Values:
		return []Answer{Value, Hidden}
	}
	return nil
}

// ByDefault are the answers that a table of columns of a kind gives if none are asked for.
func ByDefault(c Columns) []Answer {
	switch c {
	case Logits, Probabilities:
		return []Answer{Class, Probability}
	case LabelLogits:
		return []Answer{AllProbabilities}
	case Values:
		return []Answer{Value}
	}
	return []Answer{Hidden}
}

// ParseAnswers reads words of --columns. It refuses a word that is unknown or given twice. If rows are edges,
// their ends have columns of any name, so Check refuses unknown words.
func ParseAnswers(words []string, ofEdges bool) ([]Answer, error) {
	var asked []Answer
	for _, word := range words {
		a := Answer(strings.TrimSpace(word))
		switch {
		case !ofEdges && slices.Contains(ofEdge, a):
			return nil, refusal.Errorf("--columns %s: is of a table of edges, and this one is of vertices; give %s "+
				"or %s", word, Vertex, Name)
		case !ofEdges && !slices.Contains(answers, a) && !a.single():
			return nil, refusal.Errorf("--columns %s: unknown; %s", word,
				suggest.OneOf(word, texts(answers)))
		case slices.Contains(asked, a):
			return nil, refusal.Errorf("--columns: %s is given twice; name each column once", a)
		}
		asked = append(asked, a)
	}
	return asked, nil
}

// single reports whether a word may name one of several columns, whose names Table.Check knows.
func (a Answer) single() bool {
	return slices.ContainsFunc([]string{"probability_", "label_", "value_"}, func(prefix string) bool {
		return strings.HasPrefix(string(a), prefix)
	})
}

// columnOf is the column of an answer that names one of several columns, for rows of so many numbers.
func (t *Table) columnOf(a Answer, numbers int) (key Key, there bool) {
	columns, _ := t.keys(numbers)
	at := slices.IndexFunc(columns, func(k Key) bool {
		return k.Column == string(a) && (k.answer == AllProbabilities || k.answer == Value)
	})
	if at < 0 || slices.Contains(answers, a) {
		return key, false
	}
	return columns[at], true
}

// Check refuses answers that the table's columns do not give. It returns the key by which the table is
// sorted. Its rows have so many numbers.
func (t *Table) Check(numbers int) (Key, error) {
	what := t.what()
	offered, leading := t.offered(), t.leading()
	if t.Edges != nil {
		for i, a := range t.Answers {
			if err := t.Edges.check(a, leading); err != nil {
				return Key{}, err
			}
			if requested := t.asked(); slices.Contains(requested[:i], requested[i]) {
				return Key{}, refusal.Errorf("--columns %s: is given twice; name each column once", a)
			}
		}
	}
	for _, a := range t.asked() {
		_, single := t.columnOf(a, numbers)
		switch {
		case t.Edges != nil && slices.Contains(leading, a):
		case single:
		case a.single() && (slices.Contains(offered, AllProbabilities) || slices.Contains(offered, Value)):
			return Key{}, refusal.Errorf("--columns %s: the table has no such column; %s", a,
				suggest.OneOf(string(a), t.several(numbers)))
		case a == Change && t.Before == nil:
			return Key{}, noChange()
		case len(offered) == 0:
			return Key{}, refusal.Errorf("--columns %s: the model %s, and the file has these alone; leave "+
				"it out", a, what)
		case a == Vertex, a == Name && t.named():
		case a == Name:
			return Key{}, refusal.Errorf("--columns %s: the vertices of this graph have no names; leave it "+
				"out", a)
		case !slices.Contains(offered, a):
			return Key{}, refusal.Errorf("--columns %s: the model %s; give some of %s", a, what,
				listed(offered))
		}
	}
	return t.key(numbers)
}

// noChange is the refusal of the answer Change without an earlier prediction.
func noChange() error {
	return refusal.Errorf("%s: compares with the predictions before an addition; give --changed, too", Change)
}

// several are the names of the columns that probabilities and values have.
func (t *Table) several(numbers int) (names []string) {
	for _, a := range []Answer{AllProbabilities, Value} {
		if slices.Contains(t.offered(), a) {
			names = append(names, t.numbers(a, numbers)...)
		}
	}
	return names
}

// what says, for messages, what the model predicts.
func (t *Table) what() string {
	return map[Columns]string{
		Logits: "predicts classes", Probabilities: "predicts classes",
		LabelLogits: "predicts labels, of which a vertex may have several", Values: "predicts values",
		Embedding: "computes embeddings",
	}[t.Columns]
}

// offered are the answers that the table gives.
func (t *Table) offered() []Answer {
	offered := Given(t.Columns)
	if t.Before != nil && offered != nil {
		offered = append(offered, Change)
	}
	return offered
}

func texts(list []Answer) (words []string) {
	for _, a := range list {
		words = append(words, string(a))
	}
	return words
}

func listed(list []Answer) string { return strings.Join(texts(list), ", ") }

// leading are the answers with which the table begins: vertex, type and name, or of edges the number and both
// ends.
func (t *Table) leading() []Answer {
	if t.Edges != nil {
		return []Answer{t.Edges.Number(), sourceEnd, targetEnd}
	}
	all := []Answer{Vertex}
	if t.Types != nil {
		all = append(all, vertexType)
	}
	if t.named() {
		all = append(all, Name)
	}
	return all
}

// answers are the answers of the table, in order. It begins with the leading ones, unless some of these are
// asked for.
func (t *Table) answers() []Answer {
	asked, leading := t.asked(), t.leading()
	if asked == nil {
		asked = ByDefault(t.Columns)
	}
	if slices.ContainsFunc(asked, func(a Answer) bool { return slices.Contains(leading, a) }) {
		return asked
	}
	return append(leading, asked...)
}

// numbers are the names of the columns of an answer, for rows of so many numbers.
func (t *Table) numbers(a Answer, columns int) []string {
	switch {
	case a == sourceEnd:
		return t.Edges.Columns[:1]
	case a == targetEnd:
		return t.Edges.Columns[1:]
	case a == AllProbabilities && t.Columns == LabelLogits && t.Classes != nil && t.distinct():
		return t.Classes
	case a == AllProbabilities && t.Columns == LabelLogits:
		return numbered("label_", columns)
	case a == AllProbabilities && t.Classes != nil:
		names := make([]string, columns)
		for k, class := range t.Classes {
			names[k] = "probability_" + class
		}
		return names
	case a == AllProbabilities:
		return numbered("probability_", columns)
	case a == Value && columns > 1:
		return numbered("value_", columns)
	case a == Hidden && t.Columns == Embedding:
		return numbered("embedding_", columns)
	case a == Hidden:
		return numbered("embedding_", t.Embeddings.columns)
	}
	return []string{string(a)}
}

// Probability is the name of the column of a class's probability, of so many classes.
func (t *Table) Probability(class, classes int) string {
	return t.numbers(AllProbabilities, classes)[class]
}

func numbered(prefix string, count int) (names []string) {
	for k := range count {
		names = append(names, prefix+strconv.Itoa(k))
	}
	return names
}

// distinct reports whether the names of the labels differ from each other and from other columns' names, so
// that they can name columns.
func (t *Table) distinct() bool {
	others := []string{string(Vertex), string(Name), ""}
	if t.Edges != nil {
		others = append([]string{string(t.Edges.Number()), ""}, t.Edges.Columns[:]...)
	}
	if slices.Contains(t.Answers, Hidden) {
		others = append(others, numbered("embedding_", t.Embeddings.columns)...)
	}
	if t.Before != nil {
		others = append(others, string(Change))
		for _, class := range t.Classes {
			others = append(others, beforePrefix+class)
		}
	}
	names := slices.Sorted(slices.Values(slices.Concat(others, t.Classes)))
	return len(slices.Compact(names)) == len(others)+len(t.Classes)
}
