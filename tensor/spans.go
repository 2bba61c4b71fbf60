package tensor

import (
	"cmp"
	"math/rand/v2"
	"unsafe"
)

// span is a range of memory.
type span struct {
	start unsafe.Pointer
	size  int
}

func (s span) end() unsafe.Pointer { return unsafe.Add(s.start, s.size) }

// before reports whether a span is smaller than another or, if both are equally large, before it in memory.
func (s span) before(o span) bool {
	return cmp.Or(cmp.Compare(s.size, o.size), cmp.Compare(uintptr(s.start), uintptr(o.start))) < 0
}

// spans is a set of spans, ordered by span.before. It is a treap (Seidel and Aragon, Randomized search trees,
// 1996): each operation takes a time that grows with the logarithm of their number.
type spans struct {
	root   *node
	looked int // number of nodes that were looked at, for tests
}

// node has smaller spans on its left and larger ones on its right. No node below it has a higher rank.
type node struct {
	span
	rank        uint64 // a random number, which keeps the tree flat
	left, right *node
}

// add adds a span that is not among them.
func (t *spans) add(s span) {
	left, right := t.split(t.root, s)
	t.root = t.join(t.join(left, &node{span: s, rank: rand.Uint64()}), right)
}

// remove takes one of the spans away.
func (t *spans) remove(s span) {
	at := &t.root
	for (*at).span != s {
		t.looked++
		if s.before((*at).span) {
			at = &(*at).left
		} else {
			at = &(*at).right
		}
	}
	*at = t.join((*at).left, (*at).right)
}

// smallest returns the first span of at least that size.
func (t *spans) smallest(size int) (s span, found bool) {
	for n := t.root; n != nil; {
		t.looked++
		if n.size < size {
			n = n.right
			continue
		}
		s, found = n.span, true
		n = n.left
	}
	return s, found
}

// split divides a tree into the spans before by, and the others.
func (t *spans) split(n *node, by span) (left, right *node) {
	if n == nil {
		return nil, nil
	}
	t.looked++
	if n.before(by) {
		n.right, right = t.split(n.right, by)
		return n, right
	}
	left, n.left = t.split(n.left, by)
	return left, n
}

// join makes one tree of two. All spans of the left tree are before those of the right one.
func (t *spans) join(left, right *node) *node {
	switch {
	case left == nil:
		return right
	case right == nil:
		return left
	}
	t.looked++
	if left.rank > right.rank {
		left.right = t.join(left.right, right)
		return left
	}
	right.left = t.join(left, right.left)
	return right
}
