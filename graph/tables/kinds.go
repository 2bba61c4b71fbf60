package tables

import (
	"fmt"
	"math"
	"strings"
	"unicode"

	"weft/graph"
	"weft/internal/memory"
)

// kinds finds out whether the ends of a list's edges are things of two kinds with the same ids, such as users
// and items: the user 17 and the item 17 would be one vertex. It has a bit for each vertex that was a source,
// and one for each that was a target. nil: the names of the columns say that the ends are of one kind.
type kinds [2][]uint64

// areKinds reports whether the names of a list's two columns of ends may stand for two kinds of things. Known
// names of ends, as source, do not, nor do names that begin or end alike, as payer and payee.
func areKinds(ends [2]string) bool {
	var stems [2]string
	for k, name := range ends {
		if _, known := endOf(name); known {
			return false
		}
		stems[k] = strings.TrimSuffix(strings.Map(func(r rune) rune {
			if !unicode.IsLetter(r) {
				return -1
			}
			return unicode.ToLower(r)
		}, name), "id")
	}
	const alike = 3 // letters
	a, b := stems[0], stems[1]
	n, common := min(len(a), len(b)), 0
	for common < n && a[common] == b[common] {
		common++
	}
	if common >= alike || a == b {
		return false
	}
	for common = 0; common < n && a[len(a)-1-common] == b[len(b)-1-common]; {
		common++
	}
	return common < alike
}

// add takes note of edges.
func (s *kinds) add(edges *graph.Edges) error {
	for k, ends := range [2][]int32{edges.Source, edges.Target} {
		for _, v := range ends {
			if more := int(v)/64 + 1 - len(s[k]); more > 0 {
				var err error
				if s[k], err = memory.Append(s[k], make([]uint64, more)...); err != nil {
					return err
				}
			}
			s[k][v/64] |= 1 << (v % 64)
		}
	}
	return nil
}

// has reports whether a vertex was the k-th end of an edge.
func (s *kinds) has(k int, v int32) bool {
	return int(v)/64 < len(s[k]) && s[k][v/64]>>(v%64)&1 == 1
}

// counted counts the ids of one end, if all are numbers.
type counted struct{ number, least, most, outside int64 }

// whole reports whether these are all numbers from 0 or 1 to the largest.
func (c *counted) whole() bool { return c.least <= 1 && c.number == c.most-c.least+1 }

// common returns how many ids are at both ends of edges and look like ids of two kinds. One end then has all
// numbers from 0 or 1 to its largest. The other end has further ids besides, or all numbers to a smaller
// largest one. number returns the number of a vertex's id. common is 0 if ids are no numbers, or look like
// ids of one kind.
func (s *kinds) common(number func(v int32) (int64, bool)) (common int) {
	var ends [2]counted
	each := func(do func(k int, id int64)) bool {
		for v := range int32(64 * max(len(s[0]), len(s[1]))) {
			for k := range ends {
				if s.has(k, v) {
					id, is := number(v)
					if !is {
						return false
					}
					do(k, id)
				}
			}
		}
		return true
	}
	ends = [2]counted{{least: math.MaxInt64}, {least: math.MaxInt64}}
	if !each(func(k int, id int64) {
		c := &ends[k]
		c.number, c.least, c.most = c.number+1, min(c.least, id), max(c.most, id)
	}) {
		return 0
	}
	each(func(k int, id int64) {
		if other := &ends[1-k]; id < other.least || id > other.most {
			ends[k].outside++
		}
	})
	for v := range int32(64 * min(len(s[0]), len(s[1]))) {
		if s.has(0, v) && s.has(1, v) {
			common++
		}
	}
	const fewest, share = 10, 20 // ids, and one of so many
	for k := range ends {
		end, other := &ends[k], &ends[1-k]
		if end.whole() && end.number >= fewest && other.number >= fewest && other.least <= end.most &&
			(share*other.outside > other.number || other.whole() && share*(end.most-other.most) > end.most) {
			return common
		}
	}
	return 0
}

// warnOfKinds warns of a list whose ends look like things of two kinds that became the same vertices.
func (l *edgeList) warnOfKinds() {
	if l.kinds == nil {
		return
	}
	vertices := l.ends[0].table
	if l.alone != nil {
		vertices = l.alone.vertexTable
	}
	common := l.kinds.common(func(v int32) (int64, bool) {
		if vertices.numbered {
			return vertices.first + int64(v), true
		}
		return numberOf([]byte(vertices.ids.Names[v]))
	})
	if common == 0 {
		return
	}
	ends := l.endColumns()
	l.warnings = append(l.warnings, fmt.Sprintf("%s: %d ids stand in both %s and %s, and each is one vertex; where "+
		"these are two kinds of things, make two types of them, whose tables may have ids alone: --vertices-from "+
		"%[3]s=FILE --vertices-from %[4]s=FILE --source %[3]s:%[3]s --target %[4]s:%[4]s", l.Path, common, ends[0],
		ends[1]))
}
