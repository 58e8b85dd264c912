import Administration
import BrokerModel
import MQTTCodec
import Platform
import Security
import ServerLoops

/// Has the sources of logins explain themselves to administrators. Belongs to the control thread.
final class LoginExplainer {
    private let mailbox: Mailbox<ControlLoopMessage>
    private let throttle: LoginThrottle
    private var waiting: [Int: (LoginExplanation) -> Void] = [:]
    private var lastNumber = 0

    init(_ mailbox: Mailbox<ControlLoopMessage>, throttle: LoginThrottle) {
        (self.mailbox, self.throttle) = (mailbox, throttle)
    }

    /// Asks the sources of a chain. `done` gets nil while as many logins are being explained as may be, else with the
    /// report what a login that is accepted has brought along.
    ///
    /// - Returns: what to call when nobody waits for the answer any more.
    func explain(
        _ chain: LoginChain, _ trial: LoginTrial, as found: FoundClient,
        _ done: @escaping (LoginTrialReport?, LoginGrant?) -> Void
    ) -> () -> Void {
        guard waiting.count < Limits.explainedLoginsMax else {
            done(nil, nil)
            return {}
        }
        lastNumber += 1
        let number = lastNumber
        waiting[number] = { done(LoginTrialReport($0, of: found.client.userName), $0.grant) }
        let subject = throttle.subject(
            network: trial.address, site: trial.address, userName: found.client.userName, clientIdentifier: found.clientIdentifier)
        let login = chain.explain(
            userName: found.client.userName, password: trial.password, clientIdentifier: found.clientIdentifier,
            info: found.info, subject: subject
        ) { [mailbox] explanation in mailbox.post(.loginExplained(number: number, explanation)) }
        return { [weak self] in
            self?.waiting[number] = nil
            login.abandon()
        }
    }

    /// Takes what the sources have said.
    func explained(_ number: Int, _ explanation: LoginExplanation) { waiting.removeValue(forKey: number)?(explanation) }
}

extension LoginExplanation {
    /// What the login that was accepted has brought along.
    fileprivate var grant: LoginGrant? {
        if case .accepted(_, _, let grant) = outcome { return grant }
        return nil
    }
}

extension LoginTrialReport {
    fileprivate init(_ explanation: LoginExplanation, of userName: EncodedString?) {
        switch explanation.outcome {
        case .accepted(let proved, _, let grant):
            self.init(.allowed)
            self.userName = (proved ?? userName)?.withoutToken
            (isSuperuser, hasRules) = (grant?.isSuperuser ?? false, grant?.rights != nil)
            (expiresAt, source) = (grant?.expiresAt, grant?.source)
            attributes = grant?.attributes ?? []
        case .refused(.serverBusy, _): self.init(.busy)
        case .refused(.serverUnavailable, let failure):
            self.init(.unavailable)
            words = failure.words
        case .refused(_, let failure):
            self.init(.refused)
            words = failure.words
            if explanation.isDecided { source = explanation.steps.last?.source }
        case .challenge: self.init(.refused)
        }
        steps = explanation.steps.map { Step($0) }
    }
}

extension LoginTrialReport.Step {
    fileprivate init(_ step: LoginExplanation.Step) {
        let (answer, words): (Answer, String) =
            switch step.answer {
            case .allowed: (.allowed, "")
            case .refused(let failure): (.refused, failure.words)
            case .next(let failure): (.unknown, failure.words)
            case .failed(let words): (.failed, words)
            case .busy: (.busy, "too many logins wait")
            }
        let remark = step.isRemembered ? ["remembered from before"] : []
        self.init(
            source: step.source, answer: answer, words: ((words.isEmpty ? [] : [words]) + remark).joined(separator: ", "),
            microseconds: step.microseconds)
    }
}

extension Limits {
    /// Logins that are being explained at the same time; one more is refused. Bytes: 200,000 each, a token and what
    /// belongs to it.
    static let explainedLoginsMax = 16
}
