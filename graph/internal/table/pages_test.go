package table

import (
	"encoding/binary"
	"testing"
)

// The claims of a page: each damage keeps the file's other lengths right.
func TestLyingPagesAreRefused(t *testing.T) {
	if err := checkRuns([]byte{0xfe, 0xff, 0xff, 0xff, 0x0f, 1}, 1, 10); err == nil {
		t.Error("a run of two billion values in a page of ten")
	}
	if err := checkRuns([]byte{0x03, 1}, 1, 8); err != nil {
		t.Errorf("a packed group of eight: %v", err)
	}
	if err := checkRuns([]byte{0x03}, 1, 8); err == nil {
		t.Error("a packed group without its bytes")
	}
	delta := binary.AppendUvarint([]byte{0x80, 1, 4}, 1<<31)
	if err := checkValues(5, delta, 10); err == nil {
		t.Error("two billion delta-packed values in a page of ten")
	}
	if _, err := expand(1, binary.AppendUvarint(nil, 1<<32-1), 100); err == nil {
		t.Error("a snappy page that claims four gigabytes")
	}
	if _, err := expand(7, nil, 100); err == nil {
		t.Error("a codec that is not read")
	}
}
