package table

import (
	"encoding/binary"
	"testing"

	"weft/internal/assert"
)

// The claims of a page: each damage keeps the file's other lengths right.
func TestLyingPagesAreRefused(t *testing.T) {
	assert.Error(t, checkRuns([]byte{0xfe, 0xff, 0xff, 0xff, 0x0f, 1}, 1, 10),
		"a run of two billion values in a page of ten")
	assert.NoError(t, checkRuns([]byte{0x03, 1}, 1, 8), "a packed group of eight")
	assert.Error(t, checkRuns([]byte{0x03}, 1, 8), "a packed group without its bytes")
	delta := binary.AppendUvarint([]byte{0x80, 1, 4}, 1<<31)
	assert.Error(t, checkValues(5, delta, 10), "two billion delta-packed values in a page of ten")
	_, err := expand(1, binary.AppendUvarint(nil, 1<<32-1), 100)
	assert.Error(t, err, "a snappy page that claims four gigabytes")
	_, err = expand(7, nil, 100)
	assert.Error(t, err, "a codec that is not read")
}
