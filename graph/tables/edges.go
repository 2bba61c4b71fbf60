package tables

import (
	"cmp"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"weft/graph"
	"weft/graph/columns"
	"weft/graph/internal/arrays"
	"weft/graph/internal/table"
	"weft/graph/streamed"
	"weft/internal/refusal"
)

// edgeList is a list of edges, which is a relation.
type edgeList struct {
	path, name string
	ends       [2]end       // source, target
	numbers    columns.List // of the weight, if there is one, and of features; of no kind: it is open
	weighted   bool
	implied    bool // the weight was not asked for
	tables     []*vertexTable
	oneType    bool               // of these, where no other tables are known
	label      string             // the column of labels, or several between commas; empty: there is none
	optional   bool               // the list may lack it
	values     bool               // whole numbers are values, as those of a list before
	labels     labels             // of the edges
	by         splitBy            // what the labelled edges are divided by
	alone      *alone             // there is no table; nil: there are some
	ofGraph    map[string]bool    // columns of numbers of the graph's edges, which were not asked for here
	made       *streamed.Relation // that is told whether there are weights; nil: it is known
	progress   graph.Progress

	header []string
	order  []int // the columns that are read: source, target, numbers, label; nil: the first line is an edge
	// labelled are the columns of labels that it has: of label, in its order
	labelled []string
	kinds    *kinds // of the ends; nil: the list does not say that there may be two
	found    bool   // source and target are the two columns that hold ids
	leftOut  []string
	notes    []string
	warnings []string
	rounded  map[string]bool // columns that a note says float32 rounds
	odd      []oddValues     // of each of numbers
	rows     int             // of the list
	known    int64           // ends of edges that have a row in a table
	id       string          // the first end of an edge
	batch    graph.Edges
}

// end is an end of the edges of a list.
type end struct {
	asked string       // the column that was asked for; empty: one of a known name
	known string       // that of a list that was read before; empty: it is not known
	of    *vertexTable // whose vertices the ends are; nil: the first edge tells
}

// edgeLists are the lists that the options name.
func (o *Options) edgeLists(all []*vertexTable) (lists []*edgeList, err error) {
	if columns := len(o.EdgeFeatures); (columns > 0 || o.EdgeWeights != "") && len(o.Edges) > 1 {
		return nil, refusal.Errorf("--edge-weights and --edge-features are columns of one list of edges, "+
			"and there are %d", len(o.Edges))
	}
	labelled, label, err := o.labelledList()
	if err != nil {
		return nil, err
	}
	var asked [2][]string
	for k, words := range [2][]string{o.Source, o.Target} {
		if asked[k], err = o.columnsOfEnds(endNames[k], words, all); err != nil {
			return nil, err
		}
	}
	tables := map[string]*vertexTable{}
	for _, t := range all {
		tables[t.name] = t
	}
	type edges struct {
		path string
		ends [2]end
	}
	alike := map[edges]string{} // the name of the list
	for i, argument := range o.Edges {
		l := &edgeList{
			tables: all, progress: o.Progress, weighted: o.EdgeWeights != "", rounded: map[string]bool{},
			oneType: len(all) == 1 && o.Like == nil,
		}
		if i == labelled {
			l.label, l.by = label, splitBy{SplitBy: o.EdgeSplitBy}
		}
		l.name, l.path = Named(argument)
		if l.weighted {
			l.numbers = columns.List{{Name: o.EdgeWeights, Kind: columns.Number}}
		}
		for _, name := range o.EdgeFeatures {
			l.numbers = append(l.numbers, columns.Column{Name: name})
		}
		for k := range l.ends {
			e := &l.ends[k]
			e.asked = asked[k][i]
			if len(all) == 1 {
				e.of = all[0]
			}
			before, after, given := strings.Cut(e.asked, ":")
			if t := tables[before]; given && t != nil {
				e.of, e.asked = t, after
			}
		}
		these := edges{l.path, l.ends}
		if before, found := alike[these]; found && before != l.name {
			return nil, refusal.Errorf("%s: the relations %s and %s would be the same edges: name the columns of "+
				"each, as in --source %[3]s:COLUMN and --target %[3]s:COLUMN", l.path, before, l.name)
		}
		alike[these] = l.name
		lists = append(lists, l)
	}
	return lists, nil
}

// labelledList is the number of the list that EdgeLabel is of, and its column; "": none.
func (o *Options) labelledList() (list int, column string, err error) {
	relation, column, given := strings.Cut(o.EdgeLabel, ":")
	names := make([]string, len(o.Edges))
	for i, argument := range o.Edges {
		names[i], _ = Named(argument)
	}
	switch at := slices.Index(names, relation); {
	case given && at >= 0:
		return at, column, nil
	case o.EdgeLabel != "" && len(o.Edges) > 1:
		return 0, "", refusal.Errorf("--edge-label %s: is a column of one of %d lists of edges; name its relation, "+
			"as in --edge-label %s:COLUMN", o.EdgeLabel, len(o.Edges), names[0])
	}
	return 0, o.EdgeLabel, nil
}

// columnsOfEnds are the columns that the words of --source or --target ask for, by list of edges; "": none. A
// word RELATION:COLUMN or RELATION:TYPE:COLUMN is for one list, and others are for those that have none.
func (o *Options) columnsOfEnds(setting string, words []string, all []*vertexTable) ([]string, error) {
	lists := map[string]int{}
	for i, argument := range slices.Backward(o.Edges) {
		name, _ := Named(argument)
		lists[name] = i
	}
	for _, t := range all {
		delete(lists, t.name)
	}
	asked := make([]string, len(o.Edges))
	var others []string
	for _, word := range words {
		relation, column, _ := strings.Cut(word, ":")
		switch i, own := lists[relation]; {
		case !own || column == "":
			others = append(others, word)
		case asked[i] != "":
			return nil, refusal.Errorf("--%s %s: the relation has %s already; give one column", setting, word,
				asked[i])
		default:
			asked[i] = column
		}
	}
	var without []int
	for i, column := range asked {
		if column == "" {
			without = append(without, i)
		}
	}
	if len(without) == 0 && others != nil {
		return nil, refusal.Errorf("--%s %s: each relation has a column of its own; leave it out", setting,
			others[0])
	}
	for k, i := range without {
		column, err := each(setting, others, k, len(without))
		if err != nil {
			return nil, err
		}
		asked[i] = column
	}
	return asked, nil
}

// edges are those of the list.
func (l *edgeList) edges() streamed.Edges {
	e := streamed.Edges{
		Count: streamed.Unknown, Columns: l.columns(), Weighted: l.weighted, Each: l.each,
		Refuse: l.refuse,
	}
	if bytes, err := table.Size(l.path); err == nil { // if not, reading it says why
		e.About = bytes
	}
	return e
}

// each implements streamed.Edges.Each.
func (l *edgeList) each(do func(graph.Edges) error) error {
	l.rows, l.known, l.batch = 0, 0, graph.Edges{FeatureColumns: l.columns()}
	if l.alone != nil {
		l.alone.begin()
	}
	l.labels, l.odd = labels{}, make([]oddValues, len(l.numbers)+1) // a weight may be implied
	l.by.begin()
	flush := func() error {
		b := &l.batch
		if b.Len() == 0 {
			return nil
		}
		if l.kinds != nil {
			if err := l.kinds.add(b); err != nil {
				return err
			}
		}
		if l.made != nil {
			l.made.Weighted = l.weighted
		}
		err := do(*b)
		b.Source, b.Target, b.Weights, b.Features = b.Source[:0], b.Target[:0], b.Weights[:0], b.Features[:0]
		return err
	}
	of := l.table()
	of.Pipe = l.alone != nil // which is read once, unless something is found out before
	err := of.Each(l.choose, func(r *table.Row) error {
		if err := l.add(r); err != nil {
			return err
		}
		const most = 1 << 13 // edges of a batch
		if l.batch.Len() < most {
			return nil
		}
		return flush()
	})
	switch {
	case err != nil:
		return err
	case l.rows == 0:
		return refusal.Errorf("%s: has no edge; give a list of edges, source and target", l.path)
	case l.alone != nil:
		if err := l.alone.checkFirst(); err != nil {
			return err
		}
	case l.known == 0 && l.ends[0].of.ofGraph:
		return refusal.Errorf("%s: no end of an edge is the id of a vertex that the graph or a table has: "+
			"name the columns of the ends with --source and --target", l.path)
	case l.known == 0:
		return l.foreign()
	}
	if err := l.checkOdd(); err != nil {
		return err
	}
	return flush()
}

// table is the list as a table.
func (l *edgeList) table() table.Table {
	of := table.Table{Path: l.path, Progress: l.progress, Separators: ",;\t", Line: "a list of edges"}
	if l.alone != nil {
		of.Separators = l.alone.separators()
	}
	return of
}

// features is how many features an edge has.
func (l *edgeList) features() int {
	if l.weighted {
		return l.numbers[1:].Width()
	}
	return l.numbers.Width()
}

// setting asks for the i-th column of numbers.
func (l *edgeList) setting(i int) string {
	if l.weighted && i == 0 {
		return "edge-weights"
	}
	return "edge-features"
}

// wayTo is the way out where a list lacks a column that the edges of the graph have. The folder NAME=VALUE
// that a list lies in, or is, gives no column: only those below the folder that was named do.
func (l *edgeList) wayTo(name, setting string) string {
	for path := filepath.Clean(l.path); path != "." && path != filepath.Dir(path); path = filepath.Dir(path) {
		if folder := filepath.Base(path); strings.HasPrefix(folder, name+"=") {
			return fmt.Sprintf("; folders give it below the one that is named: name %s, or a new folder with %s alone in it",
				filepath.Dir(path), folder)
		}
	}
	return fmt.Sprintf("; name it with --%s where it is called otherwise, or put the file into a folder %s=VALUE, and "+
		"name the folder above", setting, name)
}

// foreign refuses a list none of whose ends is an id of the tables.
func (l *edgeList) foreign() error {
	of, ids, has := l.ends[0].of, "", ""
	if known := of.alike(l.id); known != "" {
		return refusal.Errorf("%s: no end of an edge is an id of %s, which has %.40q where an end is %.40q: "+
			"write the ids in both files alike", l.path, of.path, known, l.id)
	}
	if len(of.ids.Names) > 0 {
		ids = fmt.Sprintf(", as ids are written like %.40q, and ends like %.40q", of.ids.Names[0], l.id)
	}
	if of.header != nil {
		has = "; " + of.described()
	}
	return refusal.Columns.Errorf("%s: no end of an edge is an id of %s%s: name the columns of the ids with "+
		"--id, and those of the ends with --source and --target%s", l.path, of.path, ids, has)
}

// refuse says of an error that it is about the edges.
func (l *edgeList) refuse(err error) error {
	if l.rows == 0 { // they have not been read
		return refusal.In(l.path, err)
	}
	return refusal.Errorf("%s: %s: %w", l.path, arrays.Counted(l.rows, "edge"), err)
}

// choose finds the columns of source and target, and those of numbers. Of text it returns none where the
// first line is an edge.
func (l *edgeList) choose(all []table.Column) (order []int, err error) {
	l.header, l.order, l.leftOut, l.labelled = l.header[:0], nil, nil, nil
	if l.implied { // when the list was read before
		l.numbers, l.weighted, l.implied = l.numbers[1:], false, false
	}
	for k, c := range all {
		l.header = append(l.header, cmp.Or(c.Name, unnamed+strconv.Itoa(k)))
	}
	text := len(all) > 0 && all[0].Kind == table.Any
	if text {
		edge, err := l.isEdge(all)
		if edge && l.label != "" && (!l.optional || l.by.Column != "") {
			return nil, fmt.Errorf("--edge-label %s names a column, and the first line names none: put a line with "+
				"the names of the columns before it", l.label)
		}
		if edge && len(all) > len(l.ends) {
			l.imply(weightName)
		}
		if edge || err != nil {
			return nil, err
		}
	}
	for k := range l.ends {
		at, err := l.endAt(k)
		if err != nil {
			return nil, err
		}
		if at < 0 {
			held, err := l.holding()
			if err != nil {
				return nil, err
			}
			l.found = held != nil
			if !l.found {
				return nil, l.unnamed(text)
			}
			at = held[k]
		}
		order = append(order, at)
	}
	if order[0] == order[1] {
		return nil, refusal.Columns.Errorf("column %s would be both ends of an edge: name two of %s with "+
			"--source and --target", l.header[order[0]], arrays.Listed(l.header))
	}
	if err := l.weight(order); err != nil {
		return nil, err
	}
	for i := range l.numbers {
		name := l.numbers[i].Name
		at := slices.Index(l.header, name)
		if at >= 0 && slices.Contains(order[2:], at) {
			return nil, refusal.Columns.Errorf("the column %q is given twice: name each column once", name)
		}
		if at < 0 || slices.Contains(order, at) {
			asks, way := "--"+l.setting(i)+" asks for", ""
			if l.ofGraph[name] {
				asks, way = "the edges of the graph have", l.wayTo(name, l.setting(i))
			}
			return nil, fmt.Errorf("there is no further column %s, which %s: there are %s%s", name, asks,
				arrays.Listed(l.header), way)
		}
		order = append(order, at)
	}
	if l.label != "" {
		if order, err = l.by.choose(l.header, order); err != nil {
			return nil, err
		}
	}
	if order, err = l.chooseLabels(order); err != nil {
		return nil, err
	}
	for _, k := range order {
		if all[k].Kind == table.Nested {
			return nil, fmt.Errorf("column %s has a Parquet type that is not read, as of lists, structures and "+
				"bytes: write it as text or numbers, or name another column", l.header[k])
		}
	}
	for k, name := range l.header {
		if !slices.Contains(order, k) {
			l.leftOut = append(l.leftOut, name)
		}
	}
	l.order = order
	if l.kinds = nil; l.oneType && areKinds(l.endColumns()) {
		l.kinds = &kinds{}
	}
	return order, nil
}

// weight takes the column of the weights of a list alone that has its name, unless it is asked for otherwise.
func (l *edgeList) weight(ends []int) error {
	if l.alone == nil || l.weighted {
		return nil
	}
	at, err := l.only("edge-weights", func(name string) bool {
		return strings.EqualFold(strings.TrimSpace(name), weightName) &&
			!slices.ContainsFunc(l.numbers, func(c columns.Column) bool { return c.Name == name })
	})
	if err == nil && at >= 0 && !slices.Contains(ends, at) {
		l.imply(l.header[at])
	}
	return err
}

// imply takes a column of weights that was not asked for.
func (l *edgeList) imply(name string) {
	l.implied, l.weighted = true, true
	l.numbers = slices.Concat(columns.List{{Name: name, Kind: columns.Number}}, l.numbers)
}

// edgeColumns are the columns of a list of edges that was read before.
type edgeColumns struct {
	ends     [2]string
	weight   columns.List // none, or one
	features columns.List
	label    string // the column, or several between commas; "": there is none
	values   bool   // labels are values
	by       splitBy
}

// columnsOf are those of the list of a relation.
func columnsOf(r *graph.Relation) edgeColumns {
	c := edgeColumns{ends: r.EndColumns, features: r.NumberColumns}
	if r.EdgeLabels != nil {
		c.label, c.values, c.by = r.EdgeLabels.Column, r.EdgeLabels.Continuous(), splitByOf(r)
	}
	if c.features != nil && r.Weights != nil {
		c.weight, c.features = c.features[:1], c.features[1:]
	}
	return c
}

// know says which columns another list of the relation had. Those of weights and features are read here, too,
// unless others are asked for, which are then of the same kinds.
func (l *edgeList) know(was edgeColumns) {
	for k := range l.ends {
		l.ends[k].known = was.ends[k]
	}
	weight, features := was.weight, was.features
	if l.weighted {
		weight, l.numbers = l.numbers[:1], l.numbers[1:]
	}
	for i := range l.numbers {
		if len(l.numbers) == len(features) {
			name := l.numbers[i].Name
			l.numbers[i] = features[i]
			l.numbers[i].Name = name
		}
	}
	l.ofGraph = map[string]bool{}
	for _, c := range was.weight {
		l.ofGraph[c.Name] = !l.weighted
	}
	if len(l.numbers) > 0 {
		features = l.numbers
	} else {
		for _, c := range features {
			l.ofGraph[c.Name] = true
		}
	}
	l.numbers, l.weighted = slices.Concat(weight, features), len(weight) > 0
}

// decide finds the kinds of features that are open, at the first row: dates and truth values where all rows
// of the list have some, else numbers, of which others are refused where they stand.
func (l *edgeList) decide(first *table.Row) error {
	profiles := make([]*columns.Profile, len(l.numbers))
	others := false // nil: the kind is known
	for i := range l.numbers {
		if c := &l.numbers[i]; c.Kind == "" {
			_, number := table.Number(first.Decimal(first.Field(len(l.ends) + i)))
			c.Kind, others = columns.Number, others || !number
			profiles[i] = columns.NewProfile(c.Name, columns.Choices{})
		}
	}
	if !others {
		return nil
	}
	of := l.table()
	if err := of.Each(l.choose, func(r *table.Row) error {
		for i, p := range profiles {
			if p != nil {
				field := r.Field(len(l.ends) + i)
				p.Add(field, r.Decimal(field))
			}
		}
		return nil
	}); err != nil {
		return err
	}
	for i, p := range profiles {
		if p == nil {
			continue
		}
		made, note := p.Column()
		if c := &l.numbers[i]; made.Kind == columns.Date || made.Kind == columns.Boolean {
			c.Kind, c.Order = made.Kind, made.Order
			if note != "" {
				l.notes = append(l.notes, fmt.Sprintf("%s: column %s: %s", l.path, c.Name, note))
			}
			l.doubt(p, &made)
		}
	}
	return nil
}

// doubt keeps a warning about the dates of a column.
func (l *edgeList) doubt(p *columns.Profile, c *columns.Column) {
	if doubt := p.Doubt(c); doubt != "" {
		l.warnings = append(l.warnings, fmt.Sprintf("%s: column %s: %s", l.path, c.Name, doubt))
	}
}

// endColumns are the columns of the ends, of a list that has a header.
func (l *edgeList) endColumns() [2]string {
	return [2]string{l.header[l.order[0]], l.header[l.order[1]]}
}

// add adds the edge of a row.
func (l *edgeList) add(r *table.Row) error {
	if n := r.Len(); n != len(l.header) && r.Kind(0) == table.Any {
		return r.Errorf("%s, where the first line has %d", arrays.Counted(n, "column"), len(l.header))
	}
	l.rows++
	if l.rows == 1 {
		if err := l.decide(r); err != nil {
			return err
		}
	}
	var ends [2]int32
	for k := range ends {
		if n, whole := r.Integer(k); whole && l.alone != nil && l.alone.numbered {
			if v, there := l.alone.numbers(n); there {
				ends[k] = v
				continue
			}
		}
		v, err := l.end(k, r.Field(k))
		if err != nil {
			return r.Errorf("%s: %w", endNames[k], err)
		}
		ends[k] = v
	}
	for i := range l.numbers {
		to := &l.batch.Features
		if l.weighted && i == 0 {
			to = &l.batch.Weights
		}
		if err := l.number(to, r, i); err != nil {
			return err
		}
	}
	if l.label != "" {
		if l.by.Column != "" {
			code, err := l.by.code(r)
			if err != nil {
				return err
			}
			l.batch.Features = append(l.batch.Features, streamed.Code(code))
		}
		word, err := l.labelOf(r)
		if err != nil {
			return err
		}
		l.batch.Features = append(l.batch.Features, streamed.Code(int64(word)))
	}
	if l.alone != nil {
		l.alone.add(ends, r)
	}
	l.batch.Source, l.batch.Target = append(l.batch.Source, ends[0]), append(l.batch.Target, ends[1])
	return nil
}

// number appends the value of a row in the i-th of the columns of numbers. Where the column's mean is known a
// value is missing that is none, or not of its kind.
func (l *edgeList) number(to *[]float32, r *table.Row, i int) error {
	c, k := &l.numbers[i], len(l.ends)+i
	missing, err := l.read(to, r, i)
	if err == nil && !missing || !c.Gaps && c.Mean == 0 {
		return err
	}
	*to, _, _ = c.Append(*to, nil) // a missing value is of any kind
	if !missing {
		l.odd[i].add(r.Field(k), int64(l.rows), err)
	}
	return nil
}

// read appends the value of a row in the i-th of the columns of numbers. One that is missing or not of its
// column's kind is an error, and appends nothing.
func (l *edgeList) read(to *[]float32, r *table.Row, i int) (missing bool, err error) {
	c, k := &l.numbers[i], len(l.ends)+i
	if c.Kind == columns.Number {
		x, err := r.Number(k)
		if !(math.Abs(float64(float32(x))) <= math.MaxFloat32) || err != nil || r.Missing(k) { // NaN, too
			what := "features of edges are numbers, dates or booleans, of one kind in a column"
			if l.weighted && i == 0 {
				what = "weights of edges are numbers"
			}
			return columns.IsMissing(r.Field(k)), r.Errorf("column %s: %.40q is no finite number, and %s: correct it, "+
				"or leave the row or the column out", c.Name, r.Field(k), what)
		}
		const whole = 1 << 24 // up to which float32 has all
		if math.Abs(x) > whole {
			l.round(c.Name, float32(x), r, k)
		}
		if *to = append(*to, float32(x)); c.Gaps {
			*to = append(*to, 0)
		}
		return false, nil
	}
	field := r.Field(k)
	more, _, err := c.Append(*to, field)
	if missing = columns.IsMissing(field); missing || err != nil {
		return missing, r.Errorf("column %s: %.40q is no %s, as the other rows have: correct it, or leave the row or "+
			"the column out", c.Name, field, c.Kind)
	}
	*to = more
	return false, nil
}

// checkOdd refuses a list of which a column has many values that are not of its kind.
func (l *edgeList) checkOdd() error {
	for i := range l.odd {
		if o := &l.odd[i]; !o.Few(int64(l.rows)) {
			return o.err
		}
	}
	return nil
}

// notesOnOdd says which values count as missing, of a list whose columns another one has decided.
func (l *edgeList) notesOnOdd() (notes []string) {
	for i := range l.odd {
		if l.odd[i].Rows > 0 {
			notes = append(notes, fmt.Sprintf("%s: column %s: %s", l.path, l.numbers[i].Name,
				l.odd[i].Note(l.numbers[i].Kind)))
		}
	}
	return notes
}

// round notes the first number of a column that float32 makes another whole number of.
func (l *edgeList) round(column string, x float32, r *table.Row, k int) {
	if l.rounded[column] {
		return
	}
	field := r.Decimal(r.Field(k))
	if exact, _ := table.Number(field); exact != float64(x) {
		l.rounded[column] = true
		l.notes = append(l.notes, fmt.Sprintf("%s: column %s: float32 makes %.0f of %s; subtract what all have in "+
			"common, as the least", l.path, column, x, field))
	}
}

// end is the vertex of an id at the k-th end. An id without a row is that of a further vertex.
func (l *edgeList) end(k int, id []byte) (int32, error) {
	e := &l.ends[k]
	if e.of != nil {
		if v, there := e.of.find(id); there {
			if e.of.has(v) {
				l.known++
			}
			return v, nil
		}
	}
	if err := checkID(id); err != nil {
		return 0, err
	}
	if l.id == "" {
		l.id = string(id)
	}
	switch {
	case e.of == nil:
		if err := l.resolve(e, id); err != nil {
			return 0, err
		}
		return l.end(k, id)
	case l.alone != nil && e.of.numbered:
		return 0, l.alone.noVertex(id)
	case e.of.fixed:
		return 0, fmt.Errorf("the graph has no vertex %.40q: %w", id, e.of.noTable())
	}
	return e.of.ids.Number(id)
}

// resolve finds the table that has the first id.
func (l *edgeList) resolve(e *end, id []byte) error {
	var of []string
	for _, t := range l.tables {
		if v, there := t.find(id); there && t.has(v) {
			of = append(of, t.name)
			e.of = t
		}
	}
	if len(of) == 1 {
		return nil
	}
	e.of = nil
	types := ""
	for _, t := range l.tables {
		types += ", " + t.name
	}
	return fmt.Errorf("the id %.40q is in %d of the tables: write which type the column has, as "+
		"TYPE:COLUMN, where TYPE is one of%s", id, len(of), types[1:])
}
