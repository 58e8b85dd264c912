/// Counts the messages that a shard keeps, and their bytes.
final class MessageLedger {
    var count = 0
    var byteCount = 0
}
