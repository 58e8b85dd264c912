import BrokerCore
import BrokerModel
import FuzzKit
import MQTTCodec
import Security

/// An access file and, behind a zero byte each, a client identifier, a user name, a filter and topics.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafeRawPointer, _ count: Int) -> CInt {
    let bytes = UnsafeRawBufferPointer(start: start, count: count)
    let parts = bytes.split(separator: 0, maxSplits: 8, omittingEmptySubsequences: false).map { Array($0) }
    guard let file = try? AccessControlFile(parts[0], file: "f") else { return 0 }
    for warning in file.warnings { _ = warning.description }
    let identifier = parts.count > 1 ? EncodedString(parts[1]) ?? "c" : "c"
    let userName = parts.count > 2 ? EncodedString(parts[2]) : nil
    let policy = file.control.policy(userName: userName, clientIdentifier: identifier)
    let filter = parts.count > 3 ? TopicFilter(parts[3]) : nil
    for topic in parts.dropFirst(4).compactMap({ TopicName($0) }) {
        let mayReceive = Array(topic.bytes).withUnsafeBytes { policy.mayReceive(topic: $0) }
        _ = Array(topic.bytes).withUnsafeBytes { policy.mayPublish(topic: $0) }
        guard let filter, mayReceive, filter.matches(topic) else { continue }
        // What could bring a message is never refused.
        let maySubscribe = Array(filter.matchingBytes).withUnsafeBytes { policy.maySubscribe(filter: $0) }
        expect(maySubscribe, "\(topic) may be received, and \(filter) not be subscribed to")
    }
    return 0
}
