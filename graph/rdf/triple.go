package rdf

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf8"
)

// triple is one statement. Its terms are the names of vertices, and of a relation: an IRI without its angle
// brackets; a blank node as _:label; a literal in quotes with its language tag in lower case, or its
// datatype, as N-Triples has it: "0.1"^^<http://www.w3.org/2001/XMLSchema#double>. Each term has one name,
// however the file escapes it: no IRI begins with a quote or an underscore.
type triple struct{ subject, predicate, object []byte }

// These refuse other languages for the same graphs by name, with the way out.
var (
	errTurtle = errors.New("this is Turtle, and only N-Triples is read: convert the file, as with rapper " +
		"-i turtle -o ntriples FILE (Debian: raptor2-utils), or riot of Apache Jena")
	errXML = errors.New("this is RDF/XML, and only N-Triples is read: convert the file, as with rapper " +
		"-o ntriples FILE (Debian: raptor2-utils)")
	errQuad = errors.New("the triple goes on after its object, as in N-Quads: leave the graph's name out, " +
		"as with rapper -i nquads -o ntriples FILE")
)

// parse reads a line (https://www.w3.org/TR/n-triples/#n-triples-grammar). Empty lines and comments have no
// triple. What t had before is overwritten.
func (t *triple) parse(line []byte) (present bool, err error) {
	if !utf8.Valid(line) {
		return false, errors.New("the line is not UTF-8, which N-Triples is")
	}
	rest := trim(line)
	if len(rest) == 0 || rest[0] == '#' {
		return false, nil
	}
	if bytes.HasPrefix(rest, []byte("<?")) || bytes.HasPrefix(rest, []byte("<!")) ||
		bytes.HasPrefix(rest, []byte("<rdf:RDF ")) {
		return false, errXML
	}
	t.subject, t.predicate, t.object = t.subject[:0], t.predicate[:0], t.object[:0]
	if rest, err = resource(&t.subject, rest); err != nil {
		return false, explain("subject", rest, err)
	}
	if rest, err = iri(&t.predicate, trim(rest)); err != nil {
		return false, explain("predicate", rest, err)
	}
	rest = trim(rest)
	if len(rest) > 0 && rest[0] == '"' {
		rest, err = literal(&t.object, rest)
	} else {
		rest, err = resource(&t.object, rest)
	}
	if err != nil {
		return false, explain("object", rest, err)
	}
	return true, end(trim(rest))
}

// errKind says that no term of the allowed kinds begins.
var errKind = errors.New("no term begins")

// explain says what is wrong with the term at a place. rest is the part of it that was not understood.
func explain(place string, rest []byte, err error) error {
	switch {
	case !errors.Is(err, errKind):
		return fmt.Errorf("the %s: %w", place, err)
	case len(rest) == 0:
		return fmt.Errorf("the line ends before its %s: a triple has a line to itself, its subject, "+
			"predicate and object, and a dot", place)
	case bytes.HasPrefix(rest, []byte("<<")):
		return fmt.Errorf("the %s is a triple itself, which no vertex stands for: leave such statements out",
			place)
	case place == "subject" && bytes.IndexByte(rest, '\t') >= 0 && !turtleSubject(rest):
		return fmt.Errorf("this is a table, its columns between tabs: give it with --train, --val or " +
			"--test, and the triples in N-Triples")
	case place == "subject" && turtleSubject(rest), place != "subject" && turtleTerm(rest):
		return errTurtle
	}
	other := map[string]string{
		"subject": " or a blank node",
		"object":  ", a blank node or a literal in quotes",
	}
	return fmt.Errorf("the %s %.40q is not what N-Triples has there: an IRI in angle brackets%s", place,
		rest, other[place])
}

// turtleTerm reports whether the text may begin with a term of Turtle that N-Triples lacks.
func turtleTerm(text []byte) bool {
	return bytes.IndexByte([]byte("@:[('+-"), text[0]) >= 0 || letter(text[0]) || digit(text[0])
}

// turtleSubject reports whether the text begins with a form of Turtle in the place of a subject: a directive,
// a list, or a name with a prefix.
func turtleSubject(text []byte) bool {
	if bytes.IndexByte([]byte("@:[("), text[0]) >= 0 {
		return true
	}
	word, _, _ := bytes.Cut(text, []byte(" "))
	word, _, _ = bytes.Cut(word, []byte("\t"))
	_, local, prefixed := bytes.Cut(word, []byte(":"))
	return prefixed && !bytes.HasPrefix(local, []byte("//")) || bytes.EqualFold(word, []byte("PREFIX")) ||
		bytes.EqualFold(word, []byte("BASE"))
}

// end checks what follows the object: a dot, and perhaps a comment.
func end(rest []byte) error {
	switch {
	case len(rest) == 0 || rest[0] == '#':
		return errors.New("the dot is missing that ends a triple")
	case rest[0] == ';' || rest[0] == ',':
		return errTurtle
	case rest[0] == '<' || rest[0] == '_':
		return errQuad
	case rest[0] != '.':
		return fmt.Errorf("%.40q follows the object, where a dot ends the triple", rest)
	}
	if after := trim(rest[1:]); len(after) > 0 && after[0] != '#' {
		return fmt.Errorf("%.40q follows the dot that ends the triple: each has a line to itself", after)
	}
	return nil
}

// resource appends the name of an IRI or a blank node, and returns the text behind it. With an error it
// returns the text that was not understood.
func resource(name *[]byte, text []byte) (rest []byte, err error) {
	if bytes.HasPrefix(text, []byte("_:")) {
		return blank(name, text)
	}
	return iri(name, text)
}

// iri appends an IRI without its brackets.
func iri(name *[]byte, text []byte) (rest []byte, err error) {
	if len(text) == 0 || text[0] != '<' || bytes.HasPrefix(text, []byte("<<")) {
		return text, errKind
	}
	begin := len(*name)
	for rest = text[1:]; len(rest) > 0; {
		c := rest[0]
		switch {
		case c == '>':
			return rest[1:], checkScheme((*name)[begin:])
		case c == '\\':
			var r rune
			if r, rest, err = numeric(rest); err != nil {
				return rest, err
			}
			if notInIRI(r) {
				return text, fmt.Errorf("the character %q is in the IRI %.40q, and no IRI has it", r, text)
			}
			*name = utf8.AppendRune(*name, r)
		case notInIRI(rune(c)):
			return text, fmt.Errorf("the character %q is in the IRI %.40q, and no IRI has it", c, text)
		default:
			*name = append(*name, c)
			rest = rest[1:]
		}
	}
	return text, fmt.Errorf("the IRI %.40q has no end", text)
}

// notInIRI reports whether N-Triples forbids a character in IRIs.
func notInIRI(r rune) bool {
	switch r {
	case '<', '>', '"', '{', '}', '|', '^', '`', '\\':
		return true
	}
	return r <= ' '
}

// checkScheme refuses an IRI that is relative to another.
func checkScheme(iri []byte) error {
	for k, c := range iri {
		if c == ':' && k > 0 {
			return nil
		}
		if !letter(c) && (k == 0 || !digit(c) && c != '+' && c != '-' && c != '.') {
			break
		}
	}
	return fmt.Errorf("the IRI %.40q is relative, and N-Triples has whole ones: convert the file "+
		"with its base", iri)
}

// blank appends a blank node's label with its _:.
func blank(name *[]byte, text []byte) (rest []byte, err error) {
	n := 2
	for n < len(text) {
		r, size := utf8.DecodeRune(text[n:])
		if !inLabel(r, n == 2) {
			break
		}
		n += size
	}
	for n > 2 && text[n-1] == '.' { // it ends the triple
		n--
	}
	if n == 2 {
		return text, fmt.Errorf("the blank node %.40q has no label", text)
	}
	*name = append(*name, text[:n]...)
	return text[n:], nil
}

// inLabel reports whether a blank node's label may have the character, or begin with it: PN_CHARS_U, PN_CHARS
// and dots of the grammar.
func inLabel(r rune, first bool) bool {
	switch {
	case r < utf8.RuneSelf:
		c := byte(r)
		return letter(c) || digit(c) || c == '_' || c == ':' || !first && (c == '-' || c == '.')
	case r == '·' || 0x300 <= r && r <= 0x36f || r == 0x203f || r == 0x2040:
		return !first
	}
	for _, span := range [...][2]rune{
		{0xc0, 0xd6},
		{0xd8, 0xf6},
		{0xf8, 0x2ff},
		{0x370, 0x37d},
		{0x37f, 0x1fff},
		{0x200c, 0x200d},
		{0x2070, 0x218f},
		{0x2c00, 0x2fef},
		{0x3001, 0xd7ff},
		{0xf900, 0xfdcf},
		{0xfdf0, 0xfffd},
		{0x10000, 0xeffff},
	} {
		if span[0] <= r && r <= span[1] {
			return true
		}
	}
	return false
}

// literal appends a literal in its canonical form: in quotes, of which only quotes, backslashes and ends of
// lines are escaped, with the language tag in lower case or the datatype.
func literal(name *[]byte, text []byte) (rest []byte, err error) {
	*name = append(*name, '"')
	for rest = text[1:]; ; {
		if len(rest) == 0 {
			return text, fmt.Errorf("the literal %.40q has no end", text)
		}
		c := rest[0]
		if c == '"' {
			rest = rest[1:]
			break
		}
		if c != '\\' {
			*name = append(*name, c)
			rest = rest[1:]
			continue
		}
		var r rune
		if r, rest, err = escape(rest); err != nil {
			return rest, err
		}
		switch r {
		case '"', '\\':
			*name = append(*name, '\\', byte(r))
		case '\n':
			*name = append(*name, `\n`...)
		case '\r':
			*name = append(*name, `\r`...)
		default:
			*name = utf8.AppendRune(*name, r)
		}
	}
	*name = append(*name, '"')
	switch {
	case bytes.HasPrefix(rest, []byte("^^")):
		*name = append(*name, "^^<"...)
		if rest, err = iri(name, rest[2:]); err != nil {
			return rest, err
		}
		*name = append(*name, '>')
	case len(rest) > 0 && rest[0] == '@':
		n := tag(rest)
		if n == 0 {
			return rest, fmt.Errorf("%.40q is no language tag", rest)
		}
		*name = append(*name, bytes.ToLower(rest[:n])...)
		rest = rest[n:]
	}
	return rest, nil
}

// tag returns how many bytes a language tag has with its @: letters, then letters and digits after each
// hyphen; 0 where there is none.
func tag(text []byte) int {
	n, part, parts := 1, 0, 0
	for ; n < len(text); n++ {
		c := text[n]
		if c == '-' && part > 0 {
			part, parts = 0, parts+1
		} else if letter(c) || parts > 0 && digit(c) {
			part++
		} else {
			break
		}
	}
	if part == 0 {
		return 0
	}
	return n
}

// escape reads an escape of a literal.
func escape(text []byte) (r rune, rest []byte, err error) {
	if len(text) > 1 {
		if k := bytes.IndexByte([]byte(`tbnrf"'\`), text[1]); k >= 0 {
			return rune("\t\b\n\r\f\"'\\"[k]), text[2:], nil
		}
	}
	return numeric(text)
}

// numeric reads an escape by number: \u and 4 hexadecimal digits, or \U and 8.
func numeric(text []byte) (r rune, rest []byte, err error) {
	digits := 0
	if len(text) > 1 {
		digits = map[byte]int{'u': 4, 'U': 8}[text[1]]
	}
	if digits == 0 || len(text) < 2+digits {
		return 0, text, fmt.Errorf("%.10q is no escape of N-Triples", text)
	}
	code, err := strconv.ParseUint(string(text[2:2+digits]), 16, 32)
	if err != nil || code > utf8.MaxRune || !utf8.ValidRune(rune(code)) {
		return 0, text, fmt.Errorf("%.10q is no character", text[:2+digits])
	}
	return rune(code), text[2+digits:], nil
}

// trim takes spaces and tabs off the front.
func trim(text []byte) []byte { return bytes.TrimLeft(text, " \t") }

func letter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }
func digit(c byte) bool  { return '0' <= c && c <= '9' }
