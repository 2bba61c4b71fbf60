package serve

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"weft/internal/refusal"
)

// mostToken is how many bytes a text or a number in a body has at most.
const mostToken = 16 << 10

// scanner reads the JSON of a body as it comes. It keeps a token.
type scanner struct {
	from  *bufio.Reader
	token []byte
}

// malformed says that a body is not JSON, or not of the form that requests have.
type malformed string

func (m malformed) Error() string { return string(m) }

// next is the first byte of what comes. It stays.
func (s *scanner) next() (c byte, err error) {
	for {
		if c, err = s.from.ReadByte(); err != nil {
			return 0, err
		}
		if c != ' ' && c != '\n' && c != '\r' && c != '\t' {
			return c, s.from.UnreadByte()
		}
	}
}

// kinds are those of JSON values, by their first bytes.
var kinds = [...]struct{ first, kind string }{
	{"[", "array"}, {"{", "object"}, {`"`, "string"}, {"-0123456789", "number"}, {"tf", "bool"}, {"n", "null"},
}

// unfit says why what begins with c cannot stand where it does.
func unfit(what string, c byte) error {
	for _, k := range kinds {
		if strings.IndexByte(k.first, c) >= 0 {
			return malformed(fmt.Sprintf("%s cannot be a JSON %s", what, k.kind))
		}
	}
	return malformed(fmt.Sprintf("the body is not JSON: invalid character %q", c))
}

// skip reads c, which must come.
func (s *scanner) skip(c byte, what string) error {
	switch got, err := s.next(); {
	case err != nil:
		return err
	case got != c:
		return unfit(what, got)
	}
	_, err := s.from.Discard(1)
	return err
}

// each calls f before each element of an array or each key of an object, which begins with open.
func (s *scanner) each(open byte, what string, f func() error) error {
	if err := s.skip(open, what); err != nil {
		return err
	}
	end := open + 2 // of [ and of {
	for first := true; ; first = false {
		c, err := s.next()
		switch {
		case err != nil:
			return err
		case c == end && first:
			return s.skip(end, what)
		}
		if err = f(); err == nil {
			c, err = s.next()
		}
		if err != nil {
			return err
		}
		if c == end {
			return s.skip(end, what)
		}
		if err := s.skip(',', "what follows in "+what); err != nil {
			return err
		}
	}
}

// list calls f before each element of an array.
func (s *scanner) list(what string, f func() error) error { return s.each('[', what, f) }

// members calls f with each key of an object, before its value. No key comes twice.
func (s *scanner) members(what string, f func(key string) error) error {
	seen := map[string]bool{}
	return s.each('{', what, func() error {
		key, err := s.text("a key")
		if err != nil {
			return err
		}
		if seen[key] {
			return refusal.Errorf("the key %.40q comes twice in %s; give it once", key, what)
		}
		seen[key] = true
		if err := s.skip(':', "what follows a key"); err != nil {
			return err
		}
		return f(key)
	})
}

// object is members where these keys alone are known, of which those without a value do not count.
func (s *scanner) object(what string, known []string, f func(key string) error) error {
	return s.members(what, func(key string) error {
		if !slices.Contains(known, key) {
			return refusal.Errorf("the key %.40q is not known; the keys are %s", key, keys)
		}
		switch c, err := s.next(); {
		case err != nil:
			return err
		case c == 'n':
			_, err = s.scalar(key)
			return err
		}
		return f(key)
	})
}

// scalar is a text, a number, true, false or null, until the next token.
func (s *scanner) scalar(what string) ([]byte, error) {
	c, err := s.next()
	if err != nil {
		return nil, err
	}
	if s.token = s.token[:0]; c == '"' {
		err = s.quoted()
	} else {
		err = s.bare()
	}
	switch {
	case errors.Is(err, bufio.ErrBufferFull):
		return nil, refusal.Errorf("%s has more than %d bytes; give fewer", what, mostToken)
	case err != nil:
		return nil, err
	case len(s.token) == 0:
		return nil, unfit(what, c)
	case !utf8.Valid(s.token):
		return nil, refusal.Errorf("%s is not UTF-8; send the body as UTF-8", what)
	case !json.Valid(s.token):
		return nil, malformed(fmt.Sprintf("the body is not JSON: invalid value %.40q", s.token))
	}
	return s.token, nil
}

// quoted reads a text with its quotes.
func (s *scanner) quoted() error {
	for more := true; more; {
		part, err := s.from.ReadSlice('"')
		if s.token = append(s.token, part...); len(s.token) > mostToken {
			return bufio.ErrBufferFull
		}
		if err != nil {
			return err
		}
		last := len(s.token) - 1
		at := last
		for at > 0 && s.token[at-1] == '\\' {
			at--
		}
		more = last == 0 || (last-at)%2 == 1 // the first quote, or one that is escaped
	}
	return nil
}

// bare reads what has no quotes.
func (s *scanner) bare() error {
	for {
		c, err := s.from.ReadByte()
		if errors.Is(err, io.EOF) && len(s.token) > 0 {
			return nil
		}
		if err != nil {
			return err
		}
		letter := c|' ' >= 'a' && c|' ' <= 'z'
		if !letter && (c < '0' || c > '9') && c != '-' && c != '+' && c != '.' {
			return s.from.UnreadByte()
		}
		if s.token = append(s.token, c); len(s.token) > mostToken {
			return bufio.ErrBufferFull
		}
	}
}

// text is a string.
func (s *scanner) text(what string) (text string, err error) {
	c, err := s.next()
	if err != nil {
		return "", err
	}
	if c != '"' {
		return "", unfit(what, c)
	}
	token, err := s.scalar(what)
	if err != nil {
		return "", err
	}
	return text, json.Unmarshal(token, &text)
}

// number is a number that fits a float32.
func (s *scanner) number(what string) (float32, error) {
	token, err := s.scalar(what)
	if err != nil {
		return 0, err
	}
	if c := token[0]; c != '-' && (c < '0' || c > '9') {
		return 0, unfit(what, c)
	}
	x, err := strconv.ParseFloat(string(token), 32)
	if err != nil {
		return 0, refusal.Errorf("%s: %.40s is no number of 32 bits; give a smaller one", what, token)
	}
	return float32(x), nil
}

// numbers are so many numbers at most.
func (s *scanner) numbers(what string, most int, h *holding) (list []float32, err error) {
	list = []float32{}
	return list, s.list(what, func() error {
		if len(list) == most {
			return refusal.Errorf("%s has more than %d numbers; give as many as the graph has", what, most)
		}
		x, err := s.number(what)
		if err == nil {
			err = h.take(numberBytes)
		}
		list = append(list, x)
		return err
	})
}

// id is a string or an integer.
func (s *scanner) id() (i id, err error) {
	c, err := s.next()
	switch {
	case err != nil:
		return i, err
	case c == '"':
		i.text, err = s.text("an id")
		return i, err
	case c == '[' || c == '{':
		return i, refusal.Errorf("an array or object names no vertex; give its id, a string or an integer")
	}
	token, err := s.scalar("an id")
	if err != nil {
		return i, err
	}
	if _, err := strconv.ParseInt(string(token), 10, 64); err != nil {
		return i, refusal.Errorf("%.40s names no vertex; give its id, a string or an integer", token)
	}
	i.text = string(token)
	return i, nil
}
