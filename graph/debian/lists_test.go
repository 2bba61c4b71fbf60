package debian

import (
	"encoding/binary"
	"io"
	"runtime/debug"
	"strings"
	"testing"

	"weft/graph/graphtest"
	"weft/internal/assert"
	"weft/internal/require"
)

var compressions = []string{"", ".gz", ".xz", ".lz4"}

// A list that ends early is refused, unless only what follows its text is missing: apt's repositories state
// the decoded size.
func TestTruncatedList(t *testing.T) {
	const step = 3 // not every length: an xz decoder takes milliseconds to set up
	for _, compression := range compressions {
		whole := pack(t, compression, mainList)
		for length := 0; length < len(whole); length += step {
			l := list{path: "list", compression: compression, size: int64(len(mainList))}
			packages := 0
			err := l.parse(strings.NewReader(whole[:length]), func(entry) { packages++ })
			if complete := err == nil && packages == 4; !complete &&
				(err == nil || !strings.Contains(err.Error(), "cut short")) {
				t.Errorf("%d of %d bytes of a %q list: %d packages, %v", length, len(whole),
					compression, packages, err)
			}
		}
	}
}

// apt stores lz4 frames whose blocks refer to the blocks before them.
func TestLinkedLZ4Blocks(t *testing.T) {
	text := mainList[:len(mainList)-5]
	size := binary.LittleEndian.AppendUint32
	// Magic, linked blocks of up to 64 KiB, header checksum
	frame := []byte{0x04, 0x22, 0x4d, 0x18, 0x40, 0x40, 0xc0}
	frame = append(size(frame, 1<<31|uint32(len(text))), text...)
	// One sequence without literals, that copies the whole block before, and the five literals that a block
	// must end with.
	copied := []byte{0x0f, byte(len(text)), byte(len(text) >> 8)}
	for n := len(text) - 4 - 15; ; n -= 255 {
		if n < 255 {
			copied = append(copied, byte(n))
			break
		}
		copied = append(copied, 255)
	}
	copied = append(append(copied, 5<<4), "tail\n"...)
	frame = append(size(frame, uint32(len(copied))), copied...)
	frame = size(frame, 0)
	r, err := decode(strings.NewReader(string(frame)), ".lz4")
	require.NoError(t, err)
	got, err := io.ReadAll(r)
	if want := text + text + "tail\n"; err != nil || string(got) != want {
		t.Errorf("decoded %d bytes, %v, want %d: %.80q", len(got), err, len(want), got)
	}
}

// The decoder would allocate the dictionary that the header names.
func TestXZDictionary(t *testing.T) {
	const filterID, dictionary = 14, 16
	file := []byte(pack(t, ".xz", mainList))
	require.Equal(t, 0x21, file[filterID], "byte %d", filterID)
	for bits, want := range map[byte]string{
		28: "", 29: "larger than 64 MiB",
		40: "larger than 64 MiB", 255: "",
	} {
		file[dictionary] = bits
		_, err := decode(strings.NewReader(string(file)), ".xz")
		if got := err != nil; got != (want != "") || got && !strings.Contains(err.Error(), want) {
			t.Errorf("dictionary bits %d: %v, want %q", bits, err, want)
		}
	}
}

// A list whose size is not stated, or that lies about it, ends at the limit.
func TestDecodedSizeIsBounded(t *testing.T) {
	for _, compression := range compressions {
		l := list{path: "list", compression: compression, size: 1000}
		err := l.parse(strings.NewReader(pack(t, compression, strings.Repeat("\n", 100_000))), func(entry) {})
		assert.EqualError(t, err, "decodes to more than 1000 bytes", compression)
	}
}

func TestRepositoryOf(t *testing.T) {
	repositories := map[string]release{
		"host_debian_dists_sid":        {},
		"host_debian_dists_sid_nested": {}, "host_flat": {},
	}
	for stem, want := range map[string]string{
		"host_debian_dists_sid_main_binary-amd64":         "host_debian_dists_sid",
		"host_debian_dists_sid-updates_main_binary-amd64": "",
		"host_debian_dists_sid_nested_main_binary-all":    "host_debian_dists_sid_nested",
		"host_flat": "host_flat",
		"":          "",
	} {
		assert.Equal(t, want, repositoryOf(stem, repositories), "repositoryOf(%q)", stem)
	}
}

func FuzzList(f *testing.F) {
	f.Add(uint8(0), mainList)
	f.Add(uint8(1), "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03")
	f.Add(uint8(2), "\xfd7zXZ\x00\x00\x04\xe6\xd6\xb4\x46\x02\x00\x21\x01\x16")
	f.Add(uint8(3), "\x04\x22\x4d\x18\x40\x40\xc0\x05\x00\x00\x80hello")
	f.Fuzz(func(t *testing.T, compression uint8, file string) {
		l := list{path: "list", compression: compressions[int(compression)%len(compressions)], size: 1 << 16}
		kept := 0
		err := l.parse(strings.NewReader(file),
			func(p entry) { kept += len(p.name + p.version + p.section + p.synopsis + p.relations) })
		if int64(kept) > l.size {
			t.Errorf("kept %d bytes of at most %d", kept, l.size)
		}
		if err != nil && strings.Contains(err.Error(), "\n") {
			t.Errorf("an error of several lines: %q", err)
		}
	})
}

// Packages that exceed the memory are refused while they are read.
func TestWithoutMemory(t *testing.T) {
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(4 << 20))
	path := graphtest.File(t, "list", mainList)
	l := list{path: path, size: int64(len(mainList))}
	assert.RefusedFor(t, l.read(func(entry) {}), path+": needs ", "")
}
