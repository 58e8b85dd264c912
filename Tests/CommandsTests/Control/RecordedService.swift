import HTTP

@testable import Commands

/// A broker whose answers were recorded: it gives each in its turn, and remembers what was asked.
final class RecordedService: ControlService {
    /// By method and target; a list is given one after the other, its last one again and again.
    private var answers: [String: [ControlAnswer]]
    private let events: [ServerSentEvent]
    private(set) var asked: [String] = []
    private(set) var bodies: [String] = []

    init(_ answers: [String: String], status: Int = 200, events: [ServerSentEvent] = []) {
        self.answers = answers.mapValues { [ControlAnswer(status: status, body: Array($0.utf8))] }
        self.events = events
    }

    func answer(to request: ControlRequest) throws(ControlError) -> ControlAnswer {
        let name = "\(request.method) \(request.target.split(separator: "/api/martlet/v1", maxSplits: 1).last ?? "")"
        asked.append(name)
        if let body = request.body { bodies.append(body) }
        guard let answer = answers[name]?.first else { throw ControlError(.unreachable, "Nothing was recorded for \(name).") }
        return answer
    }

    func follow(_ request: ControlRequest, _ take: (ServerSentEvent) -> Bool) throws(ControlError) {
        asked.append("\(request.method) \(request.target.split(separator: "/api/martlet/v1", maxSplits: 1).last ?? "")")
        for event in events where !take(event) { return }
    }
}

/// What a command writes.
final class Page {
    private(set) var text = ""
    var lines: [Substring] { text.split(separator: "\n") }

    func output(width: Int? = nil, isJSON: Bool = false) -> ControlOutput {
        ControlOutput(width: width, isJSON: isJSON) { self.text += $0 }
    }
}
