package rdf

import (
	"strings"
	"testing"
)

func TestTriple(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{`<http://a/s> <http://a/p> <http://a/o> .`, "http://a/s|http://a/p|http://a/o"},
		{"\t<a:s><a:p><a:o>.", "a:s|a:p|a:o"},
		{`<a:s> <a:p> <a:o> . # a comment`, "a:s|a:p|a:o"},
		{`<a:s> <a:p> <a:o> .#`, "a:s|a:p|a:o"},
		{"", ""},
		{" \t", ""},
		{"  # <a:s> <a:p>", ""},
		// Blank nodes: labels may have dots, and none at their end.
		{`_:x <a:p> _:y .`, "_:x|a:p|_:y"},
		{`_:b.1-2·é <a:p> _:0.`, "_:b.1-2·é|a:p|_:0"},
		{`_:a..<a:p>_:c.. .`, "!the predicate"},
		// Literals: one text, one name.
		{`_:x <a:p> "" .`, `_:x|a:p|""`},
		{`_:x <a:p> "A\u0041\U00000041é\u00e9" .`, `_:x|a:p|"AAAéé"`},
		{`_:x <a:p> "\t\b\n\r\f\"\'\\" .`, "_:x|a:p|\"\t\b\\n\\r\f\\\"'\\\\\""},
		{`_:x <a:p> "\u0022\u005c\u000a" .`, `_:x|a:p|"\"\\\n"`},
		{`_:x <a:p> "#<>.'@" .`, `_:x|a:p|"#<>.'@"`},
		{`_:x <a:p> "de"@DE-at-1996 .`, `_:x|a:p|"de"@de-at-1996`},
		{`_:x <a:p> "1"^^<http://w/x#int> .`, `_:x|a:p|"1"^^<http://w/x#int>`},
		{`_:x <a:p> "1"^^<a:\u0078> .`, `_:x|a:p|"1"^^<a:x>`},
		// IRIs: escapes are what they stand for.
		{`<a:\u00e9\U0001F600> <a:p> <a:é> .`, "a:é😀|a:p|a:é"},
		{`<urn:uuid+x-1.0:%20?q#f> <a:p> <a:o> .`, "urn:uuid+x-1.0:%20?q#f|a:p|a:o"},

		{`<a:s> <a:p> <a:o>`, "!the dot is missing"},
		{`<a:s> <a:p> <a:o> # .`, "!the dot is missing"},
		{`<a:s> <a:p> <a:o> . <a:s> <a:p> <a:o> .`, "!follows the dot"},
		{`<a:s> <a:p> <a:o> "x" .`, "!follows the object"},
		{`<a:s> <a:p> .`, "!the object \".\" is not what N-Triples has there: an IRI in angle brackets, a " +
			"blank node or a literal"},
		{`<a:s> <a:p>`, "!the line ends before its object"},
		{`<a:s>`, "!the line ends before its predicate"},
		{`<a:s> _:p <a:o> .`, "!the predicate \"_:p <a:o> .\""},
		{`"s" <a:p> <a:o> .`, "!the subject"},
		{`<a:s> "p" <a:o> .`, "!the predicate"},
		{`<a:s <a:p> <a:o> .`, "!the character ' ' is in the IRI"},
		{`<a:s\u0020> <a:p> <a:o> .`, "!the character ' ' is in the IRI"},
		{`<a:"> <a:p> <a:o> .`, `!the character '"' is in the IRI`},
		{`<a:\n> <a:p> <a:o> .`, "!is no escape"},
		{`<a:s> <a:p> <a:o`, "!has no end"},
		{`<s> <a:p> <a:o> .`, `!the subject: the IRI "s" is relative`},
		{`<> <a:p> <a:o> .`, `!is relative`},
		{`<:s> <a:p> <a:o> .`, `!is relative`},
		{`<1:s> <a:p> <a:o> .`, `!is relative`},
		{`<a/b:s> <a:p> <a:o> .`, `!is relative`},
		{`_: <a:p> <a:o> .`, "!has no label"},
		{`_:-a <a:p> <a:o> .`, "!has no label"},
		{`_:x <a:p> "x .`, "!has no end"},
		{`_:x <a:p> "x\" .`, "!has no end"},
		{`_:x <a:p> "\a" .`, "!is no escape"},
		{`_:x <a:p> "\u12" .`, "!is no character"},
		{`_:x <a:p> "\u1"`, "!is no escape"},
		{`_:x <a:p> "\uD800" .`, "!is no character"},
		{`_:x <a:p> "\U00110000" .`, "!is no character"},
		{`_:x <a:p> "x"@ .`, "!is no language tag"},
		{`_:x <a:p> "x"@en- .`, "!is no language tag"},
		{`_:x <a:p> "x"@1 .`, "!is no language tag"},
		{`_:x <a:p> "x"^^"y" .`, "!the object"},
		{`_:x <a:p> "x"^^<int> .`, "!is relative"},
		{`_:x <a:p> "x"^^ .`, "!the object"},
		{"_:x <a:p> \"\xff\" .", "!not UTF-8"},

		// Other languages are named, with the way out.
		{`@prefix a: <a:> .`, "!Turtle"},
		{`PREFIX a: <a:>`, "!Turtle"},
		{`a:s a:p a:o .`, "!Turtle"},
		{"a:s\ta:p\ta:o .", "!Turtle"},
		{"a:s\ta:p 1 .", "!Turtle"},
		{"prefix\ta: <a:>", "!Turtle"},
		{`<a:s> a <a:o> .`, "!Turtle"},
		{`<a:s> <a:p> a:o .`, "!Turtle"},
		{`<a:s> <a:p> 'x' .`, "!Turtle"},
		{`<a:s> <a:p> 1.5 .`, "!Turtle"},
		{`<a:s> <a:p> -1 .`, "!Turtle"},
		{`<a:s> <a:p> true .`, "!Turtle"},
		// So is a table of labels, which is given by flags.
		{"bond\tid\tlabel_mutagenic", "!this is a table, its columns between tabs: give it with --train, " +
			"--val or --test, and the triples in N-Triples"},
		{"http://x/anna\tred", "!this is a table"},
		{"1\tred", "!this is a table"},
		{
			`id,person`,
			`!the subject "id,person" is not what N-Triples has there: an IRI in angle brackets or a blank node`,
		},
		{`1 2`, "!the subject"},
		{`<a:s> <a:p> [ <a:p> 1 ] .`, "!Turtle"},
		{`<a:s> <a:p> <a:o> ;`, "!Turtle"},
		{`<a:s> <a:p> <a:o> , <a:q> .`, "!Turtle"},
		{`_:x <a:p> "1"^^xsd:int .`, "!Turtle"},
		{`<a:s> <a:p> <a:o> <a:g> .`, "!N-Quads"},
		{`<a:s> <a:p> <a:o> _:g .`, "!N-Quads"},
		{`<< <a:s> <a:p> <a:o> >> <a:p> <a:o> .`, "!a triple itself"},
		{`<?xml version="1.0"?>`, "!RDF/XML"},
		{`<rdf:RDF xmlns="a">`, "!RDF/XML"},
	} {
		var got triple
		present, err := got.parse([]byte(c.line))
		reason, refused := strings.CutPrefix(c.want, "!")
		switch {
		case refused && err == nil:
			t.Errorf("%s: taken as %q", c.line, got)
		case refused:
			if !strings.Contains(err.Error(), reason) {
				t.Errorf("%s: %v, want %q", c.line, err, reason)
			}
		case err != nil:
			t.Errorf("%s: %v", c.line, err)
		case present != (c.want != ""):
			t.Errorf("%s: present %v", c.line, present)
		case present &&
			strings.Join([]string{string(got.subject), string(got.predicate), string(got.object)},
				"|") != c.want:
			t.Errorf("%s: got %s|%s|%s, want %s", c.line, got.subject, got.predicate, got.object, c.want)
		}
	}
}
