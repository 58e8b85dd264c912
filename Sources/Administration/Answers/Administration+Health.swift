internal import Cluster
internal import HTTP

/// Whether the broker lives and serves, for those that start it again or send it clients.
extension Administration {
    struct HealthCheck {
        let name: String
        let isWell: Bool
        /// Why not, if that is known.
        var reason: String?
    }

    /// Every loop turns. What the broker depends on does not count: starting it again would not mend that.
    func liveness() -> [HealthCheck] {
        broker.condition.loopAges.enumerated().map {
            HealthCheck(name: "loop \($0)", isWell: $1 <= Limits.turnAgeMillisecondsMax)
        }
    }

    func readiness() -> [HealthCheck] {
        let condition = broker.condition
        var checks = [
            HealthCheck(
                name: "listeners", isWell: condition.isListening, reason: broker.drain == nil ? nil : "the broker is being drained"),
            HealthCheck(name: "store", isWell: condition.store == nil || condition.store == .good),
            HealthCheck(name: "running", isWell: !condition.isStopping),
            HealthCheck(name: "memory", isWell: !condition.isMemoryFull),
        ]
        if let cluster = condition.cluster {
            checks.append(HealthCheck(name: "cluster", isWell: cluster.trouble == nil, reason: cluster.trouble ?? cluster.warning))
        }
        return checks
    }

    static func isAllWell(_ checks: [HealthCheck]) -> Bool { checks.allSatisfy { $0.isWell } }

    func getLive(_ call: Call) throws(APIError) { answer(call, liveness()) }

    func getReady(_ call: Call) throws(APIError) { answer(call, readiness()) }

    private func answer(_ call: Call, _ checks: [HealthCheck]) {
        let isWell = Self.isAllWell(checks)
        let word = isWell ? "ok\n" : "failed\n"
        let lines =
            call.text("verbose") == nil
            ? ""
            : checks.map { check in
                "[\(check.isWell ? "+" : "-")]\(check.name) \(check.isWell ? "ok" : "failed")\(check.reason.map { ": \($0)" } ?? "")\n"
            }.joined()
        var response = HTTPResponse.text(lines + word, status: isWell ? .ok : .serviceUnavailable)
        if !isWell { response.fields["Retry-After"] = String(Limits.retryAfterSeconds) }
        call.answer(response)
    }
}

extension Limits {
    /// How old the last turn of a loop may be, in milliseconds: then the broker does not live.
    static let turnAgeMillisecondsMax: UInt64 = 10_000
}
