package serve

import (
	"encoding/json"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"weft/internal/refusal"
)

// What a request may have at most.
const (
	mostVertices = 10_000
	mostEdges    = 100_000  // new ones
	mostToken    = 16 << 10 // bytes of a text or a number
)

// A byte of a body takes so many of memory at most, as it comes and decoded, and a key takes more.
const (
	decoded  = 8
	keyBytes = 128
)

// Levels of brackets in a request: its lists, the columns of a new vertex, the lists of edges, and the
// features of an edge.
const (
	listLevel    = 2
	columnsLevel = 4
	edgesLevel   = 5
	lastLevel    = 7
)

// limits is a body as it comes, up to the first thing of which a request has too much, or that decoders do
// not refuse. What else is wrong is left to a decoder.
type limits struct {
	io.Reader
	holds    *holding
	levels   [lastLevel + 1]bracket
	depth    int
	vertices int // elements of lists, that is, or edges
	edges    int
	token    []byte // text or number
	text     bool   // the token is a text, which has not ended
	escaped  bool   // its next byte is
}

// bracket is what was read within a bracket of JSON.
type bracket struct {
	keys map[string]bool // nil: of an array
	key  bool            // the next text is a key
	last string          // key
}

func (l *limits) Read(p []byte) (n int, err error) {
	n, err = l.Reader.Read(p)
	for _, c := range p[:n] {
		if wrong := l.see(c); wrong != nil {
			return 0, wrong
		}
	}
	if held := l.holds.take(decoded * n); held != nil {
		return 0, held
	}
	return n, err
}

// see takes the next byte.
func (l *limits) see(c byte) error {
	switch {
	case l.text:
		l.text = c != '"' || l.escaped
		l.escaped = c == '\\' && !l.escaped
		l.token = append(l.token, c)
		if !l.text {
			return l.ended()
		}
	case c == '"':
		l.text, l.token = true, append(l.token[:0], c)
	case strings.IndexByte("[]{},: \n\r\t", c) < 0:
		l.token = append(l.token, c)
	default:
		inList := l.depth > 0 && l.levels[l.depth].keys == nil && !l.inColumns()
		if inList && string(l.token) == "null" {
			return refusal.Errorf("null stands in a list, where it has no meaning; give a value, or leave it out")
		}
		l.token = l.token[:0]
		return l.structure(c)
	}
	if len(l.token) > mostToken {
		return refusal.Errorf("a text or a number has more than %d bytes; give fewer", mostToken)
	}
	return nil
}

// ended takes a text.
func (l *limits) ended() error {
	at := &l.levels[l.depth]
	if !utf8.Valid(l.token) {
		return refusal.Errorf("a text is not UTF-8; send the body as UTF-8")
	}
	if !at.key {
		return nil
	}
	var key string
	if err := json.Unmarshal(l.token, &key); err != nil {
		return err
	}
	switch {
	case !l.inColumns() && !l.inEdge() && !slices.Contains(keys, key): // case counts, unlike in the decoder
		return unknownKey(key)
	case at.keys[key]:
		return refusal.Errorf("the key %.40q comes twice in an object; give it once", key)
	}
	at.keys[key], at.key, at.last = true, false, key
	return l.holds.take(keyBytes)
}

// inColumns reports whether it is within the columns of a vertex, whose names and values are the caller's.
func (l *limits) inColumns() bool {
	return l.depth >= columnsLevel && l.levels[columnsLevel-1].last == "columns"
}

// inEdge reports whether it is within edges to predict, whose names and values are the caller's.
func (l *limits) inEdge() bool { return l.depth >= listLevel && l.levels[1].last == "edges" }

// structure takes a byte that is part of no token.
func (l *limits) structure(c byte) error {
	switch c {
	case '[', '{':
		if l.depth == lastLevel {
			return refusal.Errorf("arrays and objects are within each other %d times, and %d times at most in "+
				"a request", l.depth+1, lastLevel)
		}
		l.depth++
		l.levels[l.depth] = bracket{}
		if c == '{' {
			l.levels[l.depth] = bracket{keys: map[string]bool{}, key: true}
		}
	case ']', '}':
		l.depth = max(0, l.depth-1)
	case ',':
		if at := &l.levels[l.depth]; at.keys != nil {
			at.key = true
			return nil
		}
		switch {
		case l.depth == listLevel:
			l.vertices++
		case l.depth == edgesLevel && !l.inColumns() && !l.inEdge():
			l.edges++
		}
	}
	switch {
	case l.vertices >= mostVertices:
		what := "vertices"
		if l.levels[1].last == "edges" {
			what = "edges"
		}
		return refusal.Errorf("a request has %d %s at most; ask in several", mostVertices, what)
	case l.edges >= mostEdges:
		return refusal.Errorf("a request has %d new edges at most; ask in several", mostEdges)
	}
	return nil
}
