import BrokerModel
import FuzzKit
import MQTTCodec

@testable import Platform
@testable import Security

/// A client's messages, parted by zero bytes. In the last one the nonce is filled in, and so the client gets as far as
/// the proof.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafeRawPointer, _ count: Int) -> CInt {
    let bytes = UnsafeRawBufferPointer(start: start, count: count)
    let messages = bytes.split(separator: 0, maxSplits: 3, omittingEmptySubsequences: false).map { Array($0) }
    let exchange = ScramExchange(users: users, nonce: nonce)
    var outcome = exchange.begin(data: messages[0])
    check(outcome)
    for message in messages.dropFirst() {
        outcome = exchange.proceed(data: filled(message))
        check(outcome)
    }
    if let name = SASLprep.prepare(messages[0], for: .storing) {
        expect(String(validating: name, as: UTF8.self) != nil, "what is prepared is no text: \(name)")
        expect(SASLprep.prepare(messages[0], for: .asking) == name, "what is stored is asked for otherwise")
    }
    return 0
}

/// Nobody knows the password.
private func check(_ outcome: AuthenticationOutcome) {
    switch outcome {
    case .accepted: preconditionFailure("somebody is let in without the password")
    case .challenge(let data): expect(data.allSatisfy { (0x20..<0x7F).contains($0) }, "a challenge of \(data)")
    case .refused(let reason, _): expect(reason.isError, "refused with \(reason)")
    }
}

/// Puts the server's nonce in the place of `@`.
private func filled(_ message: [UInt8]) -> [UInt8] {
    guard let place = message.firstIndex(of: UInt8(ascii: "@")) else { return message }
    return message[..<place] + Array(nonce.utf8) + message[(place + 1)...]
}

private let nonce = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"

private let users: ScramFile = {
    let password = (0..<32).map { _ in UInt8.random(in: 33..<127) }
    let entry = ScramCredentials(password: password, iterations: 1).text
    guard let file = try? ScramFile(Array("user:\(entry)\na,b=c:\(entry)\n".utf8), file: "f") else {
        preconditionFailure("no file")
    }
    return file
}()
