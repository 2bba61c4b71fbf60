package training

import (
	"path/filepath"
	"strings"
	"testing"

	"weft/internal/assert"
	"weft/internal/atomicfile"
	"weft/tensor/offload"
	"weft/train/plan"
	"weft/train/setting"
)

// TestRoomOnDisk: a run is refused where its folder has less room than what rests there of the workers here.
func TestRoomOnDisk(t *testing.T) {
	dir := t.TempDir()
	free, known, err := atomicfile.Free(dir)
	if err != nil || !known || free < 1<<20 {
		t.Skip(free, known, err)
	}
	p := &plan.Plan{Workers: []plan.Worker{{DiskBytes: 2 * free}, {DiskBytes: 2 * free}}}
	err = checkDisk(p, dir, 1)
	assert.ErrorContains(t, err, "--offload "+dir)
	assert.ErrorContains(t, err, "free some room")
	p = &plan.Plan{Workers: []plan.Worker{{DiskBytes: free * 2 / 3}, {DiskBytes: free * 2 / 3}}}
	for here, refused := range []bool{true, false, true} {
		if err := checkDisk(p, dir, here); (err != nil) != refused {
			t.Errorf("%d here: %v", here, err)
		}
	}
	assert.NoError(t, checkDisk(p, "", 0))
}

// TestRoomForResults: a run directory is refused where its disk has no room for the results, or none beside
// what rests on the same disk. A folder on another disk takes none of it.
func TestRoomForResults(t *testing.T) {
	out := t.TempDir()
	free, known, err := atomicfile.Free(out)
	if err != nil || !known || free < 1<<20 {
		t.Skip(free, known, err)
	}
	rests := filepath.Join(out, "new")
	p := &plan.Plan{ResultBytes: 2 * free}
	assert.ErrorContains(t, checkResults(p, out, "", 0), "--out "+out)
	p = &plan.Plan{ResultBytes: free / 2, Workers: []plan.Worker{{DiskBytes: free * 2 / 3}, {}}}
	assert.NoError(t, checkResults(p, out, "", 0))
	assert.ErrorContains(t, checkResults(p, out, rests, 0), "that rest on that disk")
	assert.NoError(t, checkResults(p, out, rests, 1), "half of it here")
	if elsewhere := "/dev/shm"; !offload.OnDiskOf(elsewhere, out) {
		assert.NoError(t, checkResults(p, out, elsewhere, 0))
	}
}

// TestFlagsElsewhere: the table names flags of train, and none of its own flags.
func TestFlagsElsewhere(t *testing.T) {
	flags := NewTrain().Flags()
	for _, flag := range []string{"num_layers", "walk-length", "hid", "gpu"} {
		if hint, _ := setting.Elsewhere(flag); hint == "" {
			t.Errorf("--%s means nothing", flag)
		}
	}
	for _, flag := range setting.FlagsElsewhere() {
		if flags.Lookup(flag) != nil {
			t.Errorf("--%s is a flag of train", flag)
		}
		if hint, name := setting.Elsewhere(flag); name != "" &&
			(flags.Lookup(name) == nil || !strings.HasPrefix(hint, "--"+name+" ")) {
			t.Errorf("--%s: %s", flag, hint)
		}
	}
}
