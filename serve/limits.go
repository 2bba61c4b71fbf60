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
	mostEdges    = 100_000  // new edges
	mostToken    = 16 << 10 // bytes of a text or a number
)

// A byte of a body takes at most so many bytes of memory, as it comes and decoded. A key takes more.
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

// limits checks a body as it comes, up to the first thing that a request has too much of or that decoders do
// not refuse. A decoder finds all other errors.
type limits struct {
	io.Reader
	holds    *holding
	levels   [lastLevel + 1]bracket
	depth    int
	vertices int // elements of lists: vertices or edges
	edges    int
	token    []byte // text or number
	text     bool   // the token is a text, which has not ended
	escaped  bool   // the token's next byte is escaped
}

// bracket is the state within a bracket of JSON.
type bracket struct {
	keys map[string]bool // the keys so far; nil: an array
	key  bool            // the next text is a key
	last string          // the last key
}

func (l *limits) Read(p []byte) (n int, err error) {
	n, err = l.Reader.Read(p)
	for _, c := range p[:n] {
		if wrong := l.see(c); wrong != nil {
			return 0, wrong
		}
	}
	if exceeded := l.holds.take(decoded * n); exceeded != nil {
		return 0, exceeded
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

// ended checks a token that has ended.
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
	case !l.inColumns() && !l.inEdge() && !slices.Contains(keys, key): // unlike the decoder: case counts
		return unknownKey(key)
	case at.keys[key]:
		return refusal.Errorf("the key %.40q comes twice in an object; give it once", key)
	}
	at.keys[key], at.key, at.last = true, false, key
	return l.holds.take(keyBytes)
}

// inColumns reports whether the body is within the columns of a vertex, whose names and values the caller
// chooses.
func (l *limits) inColumns() bool {
	return l.depth >= columnsLevel && l.levels[columnsLevel-1].last == "columns"
}

// inEdge reports whether the body is within edges to predict, whose names and values the caller chooses.
func (l *limits) inEdge() bool { return l.depth >= listLevel && l.levels[1].last == "edges" }

// structure takes a byte outside tokens.
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
