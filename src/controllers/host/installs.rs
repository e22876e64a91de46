//! Installs a host, which wipes it: records the attempt in status, then sends the request once.

use super::{
    HostContext,
    act::{
        HostEffectResult, block_install, busy, ended, failed, get_live_with_key, nonce, read_host,
        stale,
    },
    install_log::{NoLog, log_of},
    intent::write_intent,
    switched,
    texts::{self, Texts},
};
use crate::{
    account::{Account, Permit},
    runtime::clock,
};
use api::{
    DedicatedHost, Reason,
    host_install::{HostInstallRecord, RequestForm},
};
use flexmetal_core::{
    attempt_state::{self, AttemptState, Closed},
    explanation::Explanation,
    host::{
        decide::{
            attempt::{self, HostInstallCheck},
            install::{self, NewHostInstall},
        },
        facts::{HostFacts, HostObservation},
    },
    host_record::against,
    last_error::LastError,
    reconcile::Ended,
    server_commands::RunningCommand,
};
use hosting_types::{
    HostId, SshKeyId,
    host::{HostInstall, InstallForm},
};

/// Records an installation and sends it at most once, after live reads of object, account, host and log.
pub(super) async fn install(
    ctx: &HostContext,
    facts: &HostFacts,
    account: &Account,
    mut permit: Permit,
    new: &NewHostInstall,
) -> HostEffectResult {
    let since = clock::now();
    let window = account.view().times.send_window;
    let fresh = match get_live_with_key(ctx, facts, account).await {
        Ok(fresh) => fresh,
        Err(done) => return done,
    };
    let Some(known) = install::may_start(&fresh, new) else {
        return stale();
    };
    let texts = match texts::read_texts(ctx, &fresh.subject.object).await {
        Ok(texts) => texts,
        Err(explanation) => return block_install(&fresh, explanation),
    };
    let request = match request(
        &fresh.subject.object,
        new,
        texts,
        account.view().install_form,
    ) {
        Ok(request) => request,
        Err(explanation) => return block_install(&fresh, explanation),
    };
    let id = HostId(new.host);
    let host = match read_host(&mut permit, id).await {
        Ok(host) => host,
        Err(done) => return done,
    };
    if let Some(why) = against(&host, new.host, new.server_id, Some(&known)) {
        return busy(&fresh, &why);
    }
    let seen = known.log.unwrap_or_default();
    let log = match log_of(&mut permit, id, new.pages, seen).await {
        Ok(log) => log.summary(),
        Err(NoLog::Longer) => return (Ended::Done, HostObservation::LongLog),
        Err(NoLog::Failed(why) | NoLog::TooLong(why)) => {
            let why = format!("Cannot read the log of host {id}; {why}");
            return busy(&fresh, &why);
        }
    };
    let started = (since, window);
    let intent = attempt::intent(&fresh, new, nonce(), started, (&host, log));
    if let HostInstallCheck::Repeated(why) = attempt::check_before_install(&known, &log) {
        let record = attempt::repeated(intent, why, clock::now().wall);
        return report_attempt(Ended::Done, record);
    }
    if !ctx.may_act() {
        return stale();
    }
    if clock::now().elapsed_since(since.mono) >= window {
        let why = "Checks of the host right before the request took too long";
        return failed(LastError::check_failed(why));
    }
    let record = HostInstallRecord::unfinished(intent);
    let status = attempt::installing(&fresh, known, &record);
    let object = fresh.subject.object.clone();
    let shown = |object: &_| attempt::shown_install(object, &record.intent);
    match write_intent(ctx, object, &status, shown).await {
        AttemptState::Send => {}
        AttemptState::Closed(Closed::NotStarted) => return stale(),
        _ => {
            let why = "its record could not be written to status";
            return unsent(record, why);
        }
    }
    // The sender of a command records it first and reads this object then, so no command starts from here on.
    let host = switched(ctx, &fresh.subject.object);
    let commands = ctx.server_commands.clone();
    let commands = commands.under_way_now(&host).await;
    let against = match get_live_with_key(ctx, &fresh, account).await {
        _ if !matches!(commands, Ok(RunningCommand::Nothing)) => {
            Some("a ServerCommand may be under way, or their list failed")
        }
        Err(_) => Some("object, account or SSH key could not be read after it was recorded"),
        Ok(last) if !install::may_send(&last, new, &record.intent) => {
            Some("object, account or SSH key changed after it was recorded")
        }
        Ok(_) if !attempt_state::may_send(since, record.intent.send_by, clock::now(), window) => {
            Some("it was started too long ago")
        }
        Ok(_) if !account.is_current_permit_for(&permit, Some(&new.account.credentials_hash)) => {
            Some("the account has another key or URL since it was started")
        }
        Ok(_) if !ctx.may_act() => Some("this operator is no longer the leader"),
        Ok(_) => None,
    };
    if let Some(why) = against {
        return unsent(record, why);
    }
    // The last trace if this process ends before the answer.
    tracing::info!(
        namespace = fresh.subject.namespace(),
        name = fresh.subject.name(),
        host = new.host,
        revision = new.revision,
        attempt = record.intent.attempt,
        "sending installation"
    );
    let answer = permit.call(async |client| client.install_host(id, &request).await);
    let answer = answer.await;
    let mut ended = ended(&answer);
    if let Err(error) = &answer {
        let why = attempt::explained(error, record.intent.secret_texts);
        tracing::warn!(
            namespace = fresh.subject.namespace(),
            name = fresh.subject.name(),
            attempt = record.intent.attempt,
            error = why,
            "installation request failed"
        );
        if let Ended::Failed(last_error) = &mut ended {
            last_error.message = why;
        }
    }
    report_attempt(ended, attempt::answered_install(record, &answer))
}

fn request(
    object: &DedicatedHost,
    new: &NewHostInstall,
    texts: Texts,
    form: RequestForm,
) -> Result<HostInstall, Explanation> {
    let invalid = |why: String| {
        let text = format!("The request is invalid; {why}. Correct it in spec");
        Explanation::stalled(Reason::InvalidSpec, text)
    };
    let spec = &object.spec;
    let Some(install) = &spec.install else {
        return Err(invalid("spec.install was removed".to_owned()));
    };
    let key = SshKeyId::parse(&new.key);
    let key = key.map_err(|_| invalid("the SSH key has no usable identifier".to_owned()))?;
    let request = HostInstall {
        os_id: new.os_id,
        family: new.family,
        hostname: spec.hostname.clone(),
        kernel_params: texts.params,
        post_install_script: texts.script.map(|script| new.family.runnable(&script)),
        ssh_key: Some(key),
        quick_format: install.wipe_disk,
        form: match form {
            RequestForm::Documented => InstallForm::default(),
            RequestForm::Observed => InstallForm::OBSERVED,
        },
    };
    request.check().map_err(|why| invalid(why.to_string()))?;
    Ok(request)
}

fn unsent(record: HostInstallRecord, why: &str) -> HostEffectResult {
    report_attempt(Ended::Stale, attempt::unsent_install(record, why))
}

fn report_attempt(ended: Ended, record: HostInstallRecord) -> HostEffectResult {
    let at = clock::now().mono;
    (ended, HostObservation::Installed(Box::new(record), at))
}
