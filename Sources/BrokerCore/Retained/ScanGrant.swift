/// That a scan of another shard is to go on, and by how many messages: told once its session has room.
struct ScanGrant {
    let shard: Int
    let scan: UInt64
    let count: Int
}
