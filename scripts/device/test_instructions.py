"""instructions.py counts those of a thread on the longest way that makes no call, by the dispatch of an
operation."""

import instructions

# A loop over inputs, one over operations 0 to 4, of which a table has the first two, and two over results.
KERNEL = """
.text.other:
        /*0000*/                   EXIT ;
.text.pointwise_float32:
        /*0000*/                   S2R R22, SR_TID.X ;
        /*0010*/              @!P2 EXIT ;
.L_x_1:
        /*0020*/              @!P0 BRA `(.L_x_2) ;
        /*0030*/                   LDG.E R1, desc[UR8][R2.64] ;
        /*0040*/                   FADD R1, R1, R1 ;
        /*0050*/                   BRA `(.L_x_3) ;
.L_x_2:
        /*0060*/                   LDG.E.128 R4, desc[UR8][R2.64] ;
.L_x_3:
        /*0070*/               @P1 BRA `(.L_x_1) ;
        /*0080*/                   MOV R2, 0x400 ;
.L_x_4:
        /*0090*/                   LDG.E R0, desc[UR8][R26.64] ;
        /*00a0*/                   ISETP.GT.AND P0, PT, R0, 0x2, PT ;
        /*00b0*/               @P0 BRA `(.L_x_8) ;
        /*00c0*/                   VIMNMX.U32 R9, R0, 0x2, PT ;
        /*00d0*/                   LDC R10, c[0x2][R9] ;
        /*00e0*/                   BRX R10 -0x1560          (*"BRANCH_TARGETS .L_x_5,.L_x_6,.L_x_7"*);
.L_x_5:
        /*00f0*/                   MOV R12, R8 ;
        /*0100*/                   BRA `(.L_x_9) ;
.L_x_6:
        /*0110*/              @!P3 BRA `(.L_x_9) ;
        /*0120*/                   CALL.REL.NOINC `($__internal_slow) ;
.L_x_7:
        /*0130*/                   FADD R12, R4, R5 ;
        /*0140*/                   FADD R12, R4, R5 ;
        /*0150*/                   BRA `(.L_x_9) ;
.L_x_8:
        /*0160*/                   ISETP.NE.AND P0, PT, R0, 0x3, PT ;
        /*0170*/               @P0 BRA `(.L_x_9) ;
        /*0180*/                   FMUL R12, R4, R5 ;
.L_x_9:
        /*0190*/               @P1 BRA `(.L_x_4) ;
        /*01a0*/                   NOP ;
.L_x_10:
        /*01b0*/               @P0 BRA `(.L_x_11) ;
        /*01c0*/                   STG.E.128 desc[UR8][R4.64], R12 ;
.L_x_11:
        /*01d0*/               @P1 BRA `(.L_x_10) ;
.L_x_12:
        /*01e0*/               @P0 BRA `(.L_x_13) ;
        /*01f0*/                   STG.E.128 desc[UR8][R4.64], R12 ;
.L_x_13:
        /*0200*/               @P1 BRA `(.L_x_12) ;
        /*0210*/                   EXIT ;
$__internal_slow:
        /*0220*/                   RET.REL.NODEC R20 ;
"""

# A step that copies past the registers, or loads words, that reads a matrix in one of two ways, and stores at
# its end.
PRODUCT = """
.text.product_bfloat16:
        /*0000*/                   EXIT ;
.L_x_1:
        /*0010*/              @!P0 BRA `(.L_x_2) ;
        /*0020*/              @!PT LDS RZ, [RZ] ;
        /*0030*/                   LDGSTS.E.BYPASS.128 [R1], desc[UR8][R2.64], P1 ;
        /*0040*/                   BRA `(.L_x_3) ;
.L_x_2:
        /*0050*/                   LDG.E.64 R4, desc[UR8][R2.64] ;
        /*0060*/                   STS.128 [R1], R4 ;
.L_x_3:
        /*0070*/               @P2 BRA `(.L_x_4) ;
        /*0080*/               @P3 LDSM.16.M88.4 R4, [R1] ;
        /*0090*/              @!P3 LDSM.16.MT88.4 R4, [R1] ;
        /*00a0*/                   LDS R5, [R1] ;
        /*00b0*/                   HMMA.16816.F32.BF16 R8, R4, R6, R8 ;
        /*00c0*/                   HMMA.16816.F32.BF16 R8, R4, R6, R8 ;
.L_x_4:
        /*00d0*/               @P0 BRA P1, `(.L_x_5) ;
        /*00e0*/                   LDG.E.128 R4, desc[UR8][R2.64] ;
        /*00f0*/                   STG.E desc[UR8][R2.64], R8 ;
.L_x_5:
        /*0100*/                   BRA.DIV UR4, `(.L_x_6) ;
        /*0110*/               @P1 BRA `(.L_x_1) ;
.L_x_6:
        /*0120*/                   EXIT ;
"""


# A loop over other edges, and one over rounds of two, with a way past an addition.
GATHER = """
.text.gather:
.L_x_1:
        /*0000*/                   LDG.E R1, desc[UR8][R2.64] ;
        /*0010*/               @P1 BRA `(.L_x_1) ;
.L_x_2:
        /*0020*/                   LDG.E.128 R4, desc[UR8][R2.64] ;
        /*0030*/                   LDG.E.128 R8, desc[UR8][R2.64] ;
        /*0040*/               @P0 BRA `(.L_x_3) ;
        /*0050*/                   FFMA R12, R4, R8, R12 ;
.L_x_3:
        /*0060*/               @P1 BRA `(.L_x_2) ;
        /*0070*/                   EXIT ;
"""


def test_gathered():
    assert instructions.gathered(GATHER, "gather") == (5, 2)


def test_products():
    issued, multiplied, accesses = instructions.products(PRODUCT, "product_bfloat16")
    assert (issued, multiplied) == (4 + 6 + 1 + 2, 2)
    assert accesses == 1 + 2 * 0.5 + 0.25


def test_counts(monkeypatch):
    monkeypatch.setattr(instructions, "operations", lambda: ["constant", "sqrt", "add", "mul", "where"])
    counts = instructions.Counts(KERNEL)
    # begin: 2 before the inputs, and from one loop to the next; a vector is moved by 3, and a result passed
    # by in 2
    assert (counts.begin, counts.input, counts.result) == (2 + 2 + 2, 3, 3 + 2)
    assert counts.operation == {"constant": 9, "sqrt": 8, "add": 10, "mul": 7, "where": 6}
    assert counts.counted(2, 1, "add mul") == (6 + 2 * 3 + 5 + 10 + 7, 2 + 1 + 8)


def test_narrow():
    """Kernels of vectors store some."""
    stores = {"sum_vector": "STG.E.128", "half_vector": "STG.E.64", "words_vector": "STG.E", "words": "STG.E"}
    text = "".join(
        f".text.{name}:\n        /*0000*/                   {store} desc[UR8][R4.64], R12 ;\n"
        for name, store in stores.items()
    )
    assert instructions.narrow(text) == ["words_vector"]


def test_operations():
    names = instructions.operations()
    assert names[0] == "constant" and names[-1] == "where" and len(names) == 50
    assert all(
        set(words.split()) <= set(names) for rules in instructions.MODULES.values() for _, _, words in rules
    )
