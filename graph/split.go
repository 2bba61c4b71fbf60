package graph

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"weft/internal/memory"
	"weft/internal/number"
	"weft/internal/refusal"
)

// SplitRule says how the labelled vertices are divided into train, validation and test vertices. ParseSplit
// makes one.
type SplitRule struct {
	spec    string
	kind    splitKind
	percent [3]float64   // random, stratified and graphs: train, validation and test
	parts   [3]splitPart // per-class: train, validation, test
	column  string       // time and column: column of the edges
	cuts    [2]string    // time: the first of validation, and the first of test
}

// splitPart is the size of a part of a split by the rule per-class.
type splitPart struct {
	vertices int  // 0: the vertices that the other parts leave
	inAll    bool // drawn from all classes together, not so many from each
}

type splitKind int

const (
	splitGiven splitKind = iota
	splitRandom
	splitStratified
	splitPerClass
	splitGraphs
	splitTime
	splitColumn
)

// MaxSplits keeps a mistyped number from filling the disk.
const MaxSplits = 1000

// ParseSplit reads the value of --split:
//
//	given             the splits that the source has
//	random:60/20/20   percentages of the labelled vertices that train, validate and test, 100 together
//	stratified:60/20/20  percentages of those of each class, rounded
//	per-class=20,30   20 vertices of each class train, 30 validate, the rest test
//	graphs:60/20/20   percentages of the graphs, of several that are stored as one
//	train, val, test  all labelled vertices, as of a store that another one is validated on
//
// Those of edges are divided by one of their columns (SplitBy), too:
//
//	time:paid=2024-01-01,2024-02-01  by dates or numbers: those before the first train, those from the first
//	                                 to before the second validate, and those from the second on test
//	column:part                      by the words train, val or validation, and test
//
// A third count of per-class limits the test vertices. An = in front of the second or third count makes it a
// count of all classes together, drawn from the vertices that the counts of each class leave.
// per-class=20,=500,=1000 is the rule of the Planetoid splits (Yang et al. 2016, arXiv:1603.08861).
func ParseSplit(spec string) (SplitRule, error) {
	if spec == "given" {
		return SplitRule{spec: spec, kind: splitGiven}, nil
	}
	if part := slices.Index([]string{"train", "val", "test"}, spec); part >= 0 {
		rule := SplitRule{spec: spec, kind: splitRandom}
		rule.percent[part] = 100
		return rule, nil
	}
	for prefix, kind := range map[string]splitKind{
		"random:": splitRandom, "stratified:": splitStratified, "graphs:": splitGraphs,
	} {
		if list, ok := strings.CutPrefix(spec, prefix); ok {
			return parsePercent(spec, kind, prefix+"60/20/20", strings.Split(list, "/"))
		}
	}
	if list, ok := strings.CutPrefix(spec, "per-class="); ok {
		return parsePerClass(spec, strings.Split(list, ","))
	}
	if rule, found, err := parseSplitBy(spec); found {
		return rule, err
	}
	if strings.Contains(spec, "/") && !strings.Contains(spec, ":") {
		return SplitRule{}, refusal.Errorf("--split %s: names no rule; --split random:%[1]s draws one", spec)
	}
	return SplitRule{}, refusal.Errorf("--split %q is unknown; it is one of given, random:60/20/20, "+
		"stratified:60/20/20, per-class=20,30, per-class=20,=500,=1000, graphs:60/20/20, train, val or test; or, of edges with "+
		"labels, time:COLUMN=2024-01-01,2024-02-01 or column:NAME", spec)
}

func parsePercent(spec string, kind splitKind, example string, parts []string) (SplitRule, error) {
	rule := SplitRule{spec: spec, kind: kind}
	if len(parts) != 3 {
		return SplitRule{}, refusal.Errorf("--split %q: give three percentages, for instance %s",
			spec, example)
	}
	sum := 0.0
	for i, part := range parts {
		p, err := number.Parse(part, 64)
		if err != nil || !(p >= 0 && p <= 100) {
			return SplitRule{}, refusal.Errorf("--split %q: %q is no percentage: give three, for instance %s",
				spec, part, example)
		}
		rule.percent[i] = p
		sum += p
	}
	if math.Abs(sum-100) > 1e-9 {
		return SplitRule{}, refusal.Errorf("--split %q: the percentages add up to %g: make them 100 together",
			spec, sum)
	}
	if rule.percent[0] == 0 {
		return SplitRule{}, refusal.Errorf("--split %q leaves nothing to train on: give the first "+
			"percentage more than 0", spec)
	}
	return rule, nil
}

func parsePerClass(spec string, parts []string) (SplitRule, error) {
	rule := SplitRule{spec: spec, kind: splitPerClass}
	if len(parts) != 2 && len(parts) != 3 {
		return SplitRule{}, refusal.Errorf("--split %q: give two counts or three, for instance "+
			"per-class=20,30 or per-class=20,=500,=1000", spec)
	}
	for i, text := range parts {
		digits, inAll := strings.CutPrefix(text, "=")
		n, err := strconv.ParseInt(digits, 10, 32)
		if err != nil || n < 1 {
			return SplitRule{}, refusal.Errorf("--split %q: %q is no count: give counts from 1, for "+
				"instance per-class=20,30", spec, text)
		}
		if inAll && i == 0 {
			return SplitRule{}, refusal.Errorf("--split %q: those that train are counted for each "+
				"class: leave the first = out", spec)
		}
		rule.parts[i] = splitPart{int(n), inAll}
	}
	return rule, nil
}

// MakeSplits is Frame.MakeSplits for the first vertex type. It also divides whole graphs.
func (g *Graph) MakeSplits(spec string, count int, seed uint64) error {
	if len(g.Types) == 0 {
		return g.CheckLists()
	}
	return g.Types[0].makeSplits(spec, count, seed, g.Types[0].GraphOf)
}

// MakeSplits replaces the splits by count splits, made by the rule of spec (see ParseSplit). Split k depends
// only on the labels, the seed and k. A rule of a column divides the rows with labels by SplitBy, and makes
// one split. The rule given keeps all existing splits, and allows no count but 1. MakeSplits refuses a rule
// that does not fit the labels by the name of its flag, --split or --splits.
func (f *Frame) MakeSplits(spec string, count int, seed uint64) error {
	return f.makeSplits(spec, count, seed, nil)
}

// makeSplits is MakeSplits of rows that are of several graphs; nil: they are of one.
func (f *Frame) makeSplits(spec string, count int, seed uint64, graphOf []int32) error {
	rule, err := ParseSplit(spec)
	if err != nil {
		return err
	}
	splits, kept := f.Splits, ""
	switch {
	case count < 1 || count > MaxSplits:
		err = refusal.Errorf("--splits %d: give between 1 and %d", count, MaxSplits)
	case rule.kind == splitGiven:
		err = f.checkGiven(count, graphOf)
	case rule.column == "":
		splits, err = f.draw(rule, count, seed, graphOf)
	case f.Labels.Noun() == VertexNoun:
		err = refusal.Errorf("--split %s: divides edges with labels; divide vertices by random:60/20/20 or "+
			"per-class=20,30, or give the ids of each part", spec)
	case count != 1:
		err = refusal.Errorf("--splits %d: --split %s makes one: leave --splits out", count, spec)
	default:
		splits = make([]Split, 1)
		splits[0], err = f.splitBy(&rule)
		if rule.kind == splitTime {
			kept = spec
		}
	}
	if err != nil {
		return err
	}
	if f.Splits = splits; f.SplitBy != nil {
		by := *f.SplitBy
		by.Rule = kept
		f.SplitBy = &by
	}
	return nil
}

// checkGiven refuses to keep splits where there are none, or by another number.
func (f *Frame) checkGiven(count int, graphOf []int32) error {
	if len(f.Splits) == 0 {
		rules := "random:60/20/20 or per-class=20,30"
		if graphOf != nil {
			rules = "graphs:60/20/20, " + rules
		}
		return refusal.Errorf("--split given: the source has no split: give %s", rules)
	}
	if count > 1 {
		return refusal.Errorf("--splits %d: --split given keeps the %d of the source: leave --splits "+
			"out, or make random ones", count, len(f.Splits))
	}
	return nil
}

// draw makes splits of the rows with labels by a rule.
func (f *Frame) draw(rule SplitRule, count int, seed uint64, graphOf []int32) ([]Split, error) {
	labelled, err := f.Labels.divisible(rule)
	if err != nil {
		return nil, err
	}
	if err := memory.Need(8 * int64(len(labelled)) * int64(count+1)); err != nil {
		return nil, fmt.Errorf("--splits %d: %w", count, err)
	}
	splits := make([]Split, count)
	for k := range splits {
		random := rand.New(rand.NewPCG(seed, uint64(k)))
		if rule.kind == splitGraphs {
			if splits[k], err = rule.divideGraphs(graphOf, labelled, random); err != nil {
				return nil, err
			}
			continue
		}
		shuffled := slices.Clone(labelled)
		random.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		switch rule.kind {
		case splitRandom:
			splits[k] = rule.cut(shuffled)
		case splitStratified:
			splits[k] = rule.stratify(shuffled, &f.Labels)
		default:
			splits[k] = rule.deal(shuffled, &f.Labels, random)
		}
		slices.Sort(splits[k].Train)
		slices.Sort(splits[k].Val)
		slices.Sort(splits[k].Test)
	}
	return splits, nil
}

// stratify cuts the vertices of each class by the percentages, so that all parts have about the same share of
// it.
func (r *SplitRule) stratify(shuffled []int64, l *Labels) (s Split) {
	ofClass := make([][]int64, l.Classes)
	for _, v := range shuffled {
		ofClass[l.Class[v]] = append(ofClass[l.Class[v]], v)
	}
	for _, list := range ofClass {
		split := r.cut(list)
		for part, ids := range split.Parts() {
			to := s.Parts()[part]
			*to = append(*to, *ids...)
		}
	}
	return s
}

// divideGraphs divides whole graphs, those with a labelled vertex, among the parts of a split.
func (r *SplitRule) divideGraphs(graphOf []int32, labelled []int64, random *rand.Rand) (s Split, err error) {
	if graphOf == nil {
		return s, refusal.Errorf("--split %s: the store has one graph; give random:60/20/20",
			r.spec)
	}
	var graphs []int64
	there := make([]bool, slices.Max(graphOf)+1)
	for _, v := range labelled {
		if id := graphOf[v]; !there[id] {
			there[id] = true
			graphs = append(graphs, int64(id))
		}
	}
	if err := r.checkSizes(len(graphs), "graphs with labels"); err != nil {
		return s, err
	}
	slices.Sort(graphs)
	random.Shuffle(len(graphs), func(i, j int) { graphs[i], graphs[j] = graphs[j], graphs[i] })
	ofGraphs := r.cut(graphs)
	partOf := make([]int, len(there))
	for part, list := range ofGraphs.Parts() {
		for _, id := range *list {
			partOf[id] = part
		}
	}
	for _, v := range labelled {
		list := s.Parts()[partOf[graphOf[v]]]
		*list = append(*list, v)
	}
	return s, nil
}

// divisible lists the rows with a label, after checking that the rule can divide them.
func (l *Labels) divisible(rule SplitRule) ([]int64, error) {
	count, noun := len(l.Class), l.Noun()
	rows, columns := l.rows()
	if rows != nil {
		count = len(rows) / columns
	}
	ids, err := memory.Grow([]int64{}, count)
	if err != nil {
		return nil, fmt.Errorf("--split %s: %w", rule.spec, err)
	}
	for v, class := range l.Class {
		if class >= 0 {
			ids = append(ids, int64(v))
		}
	}
	if rows != nil {
		for v := range count {
			if l.Labelled(int64(v)) {
				ids = append(ids, int64(v))
			}
		}
	}
	if len(ids) == 0 {
		return nil, refusal.Errorf("--split %s: no %s has a label, and labels are what is split: bring "+
			"them (import edges: with --labels), or bring the split (import edges: with --train, --val and "+
			"--test) and leave --split out", rule.spec, noun.One)
	}
	switch rule.kind {
	case splitPerClass:
		return ids, l.checkPerClass(rule, len(ids))
	case splitStratified:
		return ids, l.checkStratified(rule)
	}
	if rule.kind == splitGraphs {
		return ids, nil
	}
	return ids, rule.checkSizes(len(ids), "labelled "+noun.Many)
}

// checkSizes refuses percentages that leave a part of n things without one.
func (r *SplitRule) checkSizes(n int, things string) error {
	train, val := r.bounds(n)
	for i, size := range []int{train, val - train, n - val} {
		if size == 0 && r.percent[i] > 0 {
			return refusal.Errorf("--split %s: %g %% of %d %s is none: give that part more", r.spec,
				r.percent[i], n, things)
		}
	}
	return nil
}

// classSizes counts the rows of each class if a row has one class.
func (l *Labels) classSizes(rule SplitRule) ([]int, error) {
	if l.Class == nil {
		return nil, refusal.Errorf("--split %s: %s has several labels, or values, hence no one class: give "+
			"random:60/20/20", rule.spec, l.Noun().A())
	}
	size := make([]int, l.Classes)
	for v, class := range l.Class {
		if class >= int64(l.Classes) {
			return nil, fmt.Errorf("label %d of %s %d is out of the range of %d classes", class, l.Noun().One, v,
				l.Classes)
		}
		if class >= 0 {
			size[class]++
		}
	}
	return size, nil
}

// checkStratified refuses percentages that leave a part without a vertex of any class.
func (l *Labels) checkStratified(rule SplitRule) error {
	sizes, err := l.classSizes(rule)
	if err != nil {
		return err
	}
	var parts [3]int
	for _, n := range sizes {
		train, val := rule.bounds(n)
		parts[0], parts[1], parts[2] = parts[0]+train, parts[1]+val-train, parts[2]+n-val
	}
	for part, size := range parts {
		if size == 0 && rule.percent[part] > 0 {
			return refusal.Errorf("--split %s: %g %% of each class is none, as the largest has %d %s: give that part "+
				"more, or random:60/20/20", rule.spec, rule.percent[part], slices.Max(sizes), l.Noun().Many)
		}
	}
	return nil
}

func (l *Labels) checkPerClass(rule SplitRule, labelled int) error {
	size, err := l.classSizes(rule)
	if err != nil {
		return err
	}
	need, inAll := rule.needs()
	for class, n := range size {
		if n < need {
			return refusal.Errorf("--split %s: class %s has %d %s, fewer than %d: give smaller counts "+
				"or random:60/20/20", rule.spec, l.className(class), n, l.Noun().Many, need)
		}
	}
	switch left := labelled - need*l.Classes - inAll; {
	case left < 0:
		return refusal.Errorf("--split %s: %d of each class leave %d %s, fewer than %d in all: give "+
			"smaller counts", rule.spec, need, left+inAll, l.Noun().Many, inAll)
	case left == 0 && rule.parts[2].vertices == 0:
		return refusal.Errorf("--split %s leaves no %s to test on: give smaller counts or "+
			"random:60/20/20", rule.spec, l.Noun().One)
	}
	return nil
}

func (l *Labels) className(class int) string {
	if l.Names == nil {
		return l.ClassName(class)
	}
	return fmt.Sprintf("%d (%s)", class, l.Names[class])
}

// ClassName returns the name of a class: its number where classes have no names.
func (l *Labels) ClassName(class int) string {
	if l.Names == nil {
		return strconv.Itoa(class)
	}
	return l.Names[class]
}

// bounds returns how many of n train, and how many train or validate, rounded to the nearest.
func (r *SplitRule) bounds(n int) (train, val int) {
	train = int(math.Round(float64(n) * r.percent[0] / 100))
	val = n
	if r.percent[2] > 0 {
		val = int(math.Round(float64(n) * (r.percent[0] + r.percent[1]) / 100))
	}
	return train, val
}

// cut divides shuffled vertices, or graphs, by percentages.
func (r *SplitRule) cut(shuffled []int64) Split {
	train, val := r.bounds(len(shuffled))
	return Split{Train: shuffled[:train:train], Val: shuffled[train:val:val], Test: shuffled[val:]}
}

// needs returns how many vertices of each class the rule takes, and how many more of all classes together.
func (r *SplitRule) needs() (each, inAll int) {
	for _, p := range r.parts {
		if p.inAll {
			inAll += p.vertices
		} else {
			each += p.vertices
		}
	}
	return each, inAll
}

// deal gives the first shuffled vertices of each class, in their order, to the parts that count by class. It
// then shuffles the rest again, as small classes come late in it. The parts that count in all, and the part
// that takes the remainder, get these.
func (r *SplitRule) deal(shuffled []int64, labels *Labels, random *rand.Rand) Split {
	var s Split
	lists := [...]*[]int64{&s.Train, &s.Val, &s.Test}
	var rest []int64
	dealt := make([]int, labels.Classes)
	for _, v := range shuffled {
		to, n := &rest, dealt[labels.Class[v]]
		dealt[labels.Class[v]]++
		for i, p := range r.parts {
			if p.inAll {
				continue
			}
			if n < p.vertices {
				to = lists[i]
				break
			}
			n -= p.vertices
		}
		*to = append(*to, v)
	}
	random.Shuffle(len(rest), func(i, j int) { rest[i], rest[j] = rest[j], rest[i] })
	for i, p := range r.parts {
		n := p.vertices
		switch {
		case p == splitPart{}:
			n = len(rest)
		case !p.inAll:
			continue
		}
		*lists[i] = append(*lists[i], rest[:n]...)
		rest = rest[n:]
	}
	return s
}
