/// Where a trace's lines are kept: a file without a name, which is gone when nobody holds it any more.
public protocol TraceFile: AnyObject {
    /// Writes behind what is there; false if there is no room for it, and nothing of it is written then.
    func append(_ bytes: [UInt8]) -> Bool
    /// What stands from an offset on, at most so many bytes; empty where it cannot be read.
    func bytes(from offset: Int, count: Int) -> [UInt8]
}
