import FuzzKit

/// A whole broker in memory, as the first bytes describe it, does what the rest says; then everybody goes, and nothing
/// may be left.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafeRawPointer, _ count: Int) -> CInt {
    var play = Play(ByteScript(UnsafeRawBufferPointer(start: start, count: count)))
    play.run()
    return 0
}
