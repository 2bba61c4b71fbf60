package graph

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"weft/internal/memory"
	"weft/internal/refusal"
)

// SplitRule says how the labelled vertices are divided into train, validation and test vertices. ParseSplit makes one.
type SplitRule struct {
	spec       string
	kind       splitKind
	percent    [3]float64 // random: train, validation, test
	train, val int        // per-class: vertices of each class
}

type splitKind int

const (
	splitGiven splitKind = iota
	splitRandom
	splitPerClass
)

// maxSplits keeps a mistyped number from filling the disk.
const maxSplits = 1000

// ParseSplit reads the value of --split:
//
//	given             the splits that the source has
//	random:60/20/20   percentages of the labelled vertices that train, validate and test, 100 together
//	per-class=20,30   20 vertices of each class train, 30 validate, the rest test
func ParseSplit(spec string) (SplitRule, error) {
	if spec == "given" {
		return SplitRule{spec: spec, kind: splitGiven}, nil
	}
	if list, ok := strings.CutPrefix(spec, "random:"); ok {
		return parseRandom(spec, strings.Split(list, "/"))
	}
	if list, ok := strings.CutPrefix(spec, "per-class="); ok {
		return parsePerClass(spec, strings.Split(list, ","))
	}
	return SplitRule{}, refusal.Errorf("--split %q is unknown: give given, random:60/20/20 or per-class=20,30", spec)
}

func parseRandom(spec string, parts []string) (SplitRule, error) {
	rule := SplitRule{spec: spec, kind: splitRandom}
	if len(parts) != 3 {
		return SplitRule{}, refusal.Errorf("--split %q: give three percentages, for instance random:60/20/20", spec)
	}
	sum := 0.0
	for i, part := range parts {
		p, err := strconv.ParseFloat(part, 64)
		if err != nil || !(p >= 0 && p <= 100) {
			return SplitRule{}, refusal.Errorf("--split %q: %q is no percentage: give three, for instance random:60/20/20", spec, part)
		}
		rule.percent[i] = p
		sum += p
	}
	if math.Abs(sum-100) > 1e-9 {
		return SplitRule{}, refusal.Errorf("--split %q: the percentages add up to %g: make them 100 together", spec, sum)
	}
	if rule.percent[0] == 0 {
		return SplitRule{}, refusal.Errorf("--split %q leaves nothing to train on: give the first percentage more than 0", spec)
	}
	return rule, nil
}

func parsePerClass(spec string, parts []string) (SplitRule, error) {
	rule := SplitRule{spec: spec, kind: splitPerClass}
	if len(parts) != 2 {
		return SplitRule{}, refusal.Errorf("--split %q: give two counts, for instance per-class=20,30", spec)
	}
	for i, count := range []*int{&rule.train, &rule.val} {
		n, err := strconv.ParseInt(parts[i], 10, 32)
		if err != nil || n < 1 {
			return SplitRule{}, refusal.Errorf("--split %q: %q is no count of vertices: give two from 1, for instance per-class=20,30",
				spec, parts[i])
		}
		*count = int(n)
	}
	return rule, nil
}

// MakeSplits replaces g.Splits by count splits made by the rule that spec names (see ParseSplit). Split k depends on the graph's
// labels, the seed and k alone. The rule given keeps the splits that are there, all of them, and allows no count but 1. A rule
// that the labels do not allow is refused by the name of its flag, --split or --splits.
func (g *Graph) MakeSplits(spec string, count int, seed uint64) error {
	rule, err := ParseSplit(spec)
	if err != nil {
		return err
	}
	if count < 1 || count > maxSplits {
		return refusal.Errorf("--splits %d: give between 1 and %d", count, maxSplits)
	}
	if rule.kind == splitGiven {
		if len(g.Splits) == 0 {
			return refusal.Errorf("--split given: the source has no split: give random:60/20/20 or per-class=20,30")
		}
		if count > 1 {
			return refusal.Errorf("--splits %d: --split given keeps the %d of the source: leave --splits out, or make random ones",
				count, len(g.Splits))
		}
		return nil
	}
	labelled, err := g.Labels.divisible(rule)
	if err != nil {
		return err
	}
	if err := memory.Need(8 * int64(len(labelled)) * int64(count+1)); err != nil {
		return fmt.Errorf("--splits %d: %w", count, err)
	}
	splits := make([]Split, count)
	for k := range splits {
		random := rand.New(rand.NewPCG(seed, uint64(k)))
		shuffled := slices.Clone(labelled)
		random.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		if rule.kind == splitRandom {
			splits[k] = rule.cut(shuffled)
		} else {
			splits[k] = rule.deal(shuffled, &g.Labels)
		}
		slices.Sort(splits[k].Train)
		slices.Sort(splits[k].Val)
		slices.Sort(splits[k].Test)
	}
	g.Splits = splits
	return nil
}

// divisible lists the vertices with a label, after checking that the rule can divide them.
func (l *Labels) divisible(rule SplitRule) ([]int64, error) {
	var ids []int64
	for v, class := range l.Class {
		if class >= 0 {
			ids = append(ids, int64(v))
		}
	}
	if l.MultiLabel() {
		for v := range len(l.Multi) / l.Classes {
			if !math.IsNaN(float64(l.Multi[v*l.Classes])) {
				ids = append(ids, int64(v))
			}
		}
	}
	if len(ids) == 0 {
		return nil, refusal.Errorf("--split %s: no vertex has a label: give labels, or bring a split and give --split given", rule.spec)
	}
	if rule.kind == splitPerClass {
		return ids, l.checkPerClass(rule, len(ids))
	}
	train, val := rule.bounds(len(ids))
	for i, size := range []int{train, val - train, len(ids) - val} {
		if size == 0 && rule.percent[i] > 0 {
			return nil, refusal.Errorf("--split %s: %g %% of %d labelled vertices is none: give that part more",
				rule.spec, rule.percent[i], len(ids))
		}
	}
	return ids, nil
}

func (l *Labels) checkPerClass(rule SplitRule, labelled int) error {
	if l.MultiLabel() {
		return refusal.Errorf("--split %s: a vertex has several labels, hence no one class: give random:60/20/20", rule.spec)
	}
	size := make([]int, l.Classes)
	for v, class := range l.Class {
		if class >= int64(l.Classes) {
			return fmt.Errorf("label %d of vertex %d is out of the range of %d classes", class, v, l.Classes)
		}
		if class >= 0 {
			size[class]++
		}
	}
	need := rule.train + rule.val
	for class, n := range size {
		if n < need {
			return refusal.Errorf("--split %s: class %s has %d vertices, fewer than %d: give smaller counts or random:60/20/20",
				rule.spec, l.className(class), n, need)
		}
	}
	if labelled == need*l.Classes {
		return refusal.Errorf("--split %s leaves no vertex to test on: give smaller counts or random:60/20/20", rule.spec)
	}
	return nil
}

func (l *Labels) className(class int) string {
	if l.Names == nil {
		return strconv.Itoa(class)
	}
	return fmt.Sprintf("%d (%s)", class, l.Names[class])
}

// bounds returns how many of n vertices train, and how many train or validate, rounded to the nearest.
func (r *SplitRule) bounds(n int) (train, val int) {
	train = int(math.Round(float64(n) * r.percent[0] / 100))
	val = n
	if r.percent[2] > 0 {
		val = int(math.Round(float64(n) * (r.percent[0] + r.percent[1]) / 100))
	}
	return train, val
}

// cut divides shuffled vertices by percentages.
func (r *SplitRule) cut(shuffled []int64) Split {
	train, val := r.bounds(len(shuffled))
	return Split{Train: shuffled[:train:train], Val: shuffled[train:val:val], Test: shuffled[val:]}
}

// deal gives the first shuffled vertices of each class to train, the next to validate and the rest to test.
func (r *SplitRule) deal(shuffled []int64, labels *Labels) Split {
	var s Split
	dealt := make([]int, labels.Classes)
	for _, v := range shuffled {
		class := labels.Class[v]
		switch n := dealt[class]; {
		case n < r.train:
			s.Train = append(s.Train, v)
		case n < r.train+r.val:
			s.Val = append(s.Val, v)
		default:
			s.Test = append(s.Test, v)
		}
		dealt[class]++
	}
	return s
}
