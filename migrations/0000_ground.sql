CREATE TABLE "api_keys" (
	"id" text PRIMARY KEY NOT NULL,
	"tenant" text NOT NULL,
	"user_id" uuid,
	"name" text NOT NULL,
	"secret_hash" text NOT NULL,
	"scopes" text[] NOT NULL,
	"created_at" timestamp (3) with time zone NOT NULL,
	"expires_at" timestamp (3) with time zone,
	"revoked_at" timestamp (3) with time zone,
	"last_used_at" timestamp (3) with time zone
);
--> statement-breakpoint
CREATE TABLE "audit_log" (
	"id" uuid PRIMARY KEY NOT NULL,
	"tenant" text NOT NULL,
	"actor" text NOT NULL,
	"action" text NOT NULL,
	"entity" text NOT NULL,
	"detail" jsonb DEFAULT '{}'::jsonb NOT NULL,
	"occurred_at" timestamp (3) with time zone NOT NULL
);
--> statement-breakpoint
CREATE TABLE "bootstrap_uses" (
	"secret_hash" text PRIMARY KEY NOT NULL,
	"api_key_id" text NOT NULL,
	"used_at" timestamp (3) with time zone NOT NULL
);
--> statement-breakpoint
CREATE TABLE "chains" (
	"tenant" text NOT NULL,
	"id" text NOT NULL,
	"content_hash" text NOT NULL,
	"display_name" text NOT NULL,
	"profile" jsonb NOT NULL,
	"pushed_at" timestamp (3) with time zone NOT NULL,
	CONSTRAINT "chains_tenant_id_pk" PRIMARY KEY("tenant","id")
);
--> statement-breakpoint
CREATE TABLE "dead_letters" (
	"id" uuid PRIMARY KEY NOT NULL,
	"tenant" text NOT NULL,
	"queue" text NOT NULL,
	"body" jsonb NOT NULL,
	"reason" text NOT NULL,
	"created_at" timestamp (3) with time zone NOT NULL,
	"replayed_at" timestamp (3) with time zone
);
--> statement-breakpoint
CREATE TABLE "hosts" (
	"tag" text PRIMARY KEY NOT NULL,
	"tenant" text NOT NULL,
	"node_id" uuid NOT NULL,
	"generation" integer NOT NULL,
	"provider" text NOT NULL,
	"region" text NOT NULL,
	"instance_type" text NOT NULL,
	"status" text NOT NULL,
	"provider_host_id" text,
	"address" text,
	"created_at" timestamp (3) with time zone NOT NULL,
	"updated_at" timestamp (3) with time zone NOT NULL,
	"destroyed_at" timestamp (3) with time zone,
	"adopted" boolean DEFAULT false NOT NULL
);
--> statement-breakpoint
CREATE TABLE "idempotency_keys" (
	"tenant" text NOT NULL,
	"principal" text NOT NULL,
	"key" text NOT NULL,
	"request_hash" text NOT NULL,
	"status" integer NOT NULL,
	"response" jsonb NOT NULL,
	"created_at" timestamp (3) with time zone NOT NULL,
	CONSTRAINT "idempotency_keys_tenant_principal_key_pk" PRIMARY KEY("tenant","principal","key")
);
--> statement-breakpoint
CREATE TABLE "node_events" (
	"event_id" uuid PRIMARY KEY NOT NULL,
	"node_id" uuid NOT NULL,
	"incarnation" bigint NOT NULL,
	"position" bigint NOT NULL,
	"kind" text NOT NULL,
	"body" jsonb NOT NULL,
	"occurred_at" timestamp (3) with time zone NOT NULL
);
--> statement-breakpoint
CREATE TABLE "nodes" (
	"id" uuid PRIMARY KEY NOT NULL,
	"tenant" text NOT NULL,
	"user_id" uuid,
	"subscription_id" uuid NOT NULL,
	"chain" text NOT NULL,
	"node_type" text NOT NULL,
	"chain_content_hash" text NOT NULL,
	"provider" text NOT NULL,
	"region" text NOT NULL,
	"created_at" timestamp (3) with time zone NOT NULL,
	"incarnation" bigint DEFAULT 0 NOT NULL,
	"state_version" bigint DEFAULT 0 NOT NULL,
	"state" text DEFAULT 'provisioning' NOT NULL,
	"application_health" text DEFAULT 'unknown' NOT NULL,
	"sync_status" text DEFAULT 'unknown' NOT NULL,
	"state_since" timestamp (3) with time zone NOT NULL,
	"down_since" timestamp (3) with time zone,
	"endpoints" jsonb DEFAULT '{}'::jsonb NOT NULL,
	"next_due" timestamp (3) with time zone,
	"touched_at" timestamp (3) with time zone,
	"outbox_incarnation" bigint DEFAULT 0 NOT NULL,
	"outbox_position" bigint DEFAULT 0 NOT NULL
);
--> statement-breakpoint
CREATE TABLE "saga_steps" (
	"saga_id" text NOT NULL,
	"name" text NOT NULL,
	"position" integer NOT NULL,
	"status" text NOT NULL,
	"attempts" integer DEFAULT 1 NOT NULL,
	"started_at" timestamp (3) with time zone NOT NULL,
	"ended_at" timestamp (3) with time zone,
	"detail" text,
	CONSTRAINT "saga_steps_saga_id_name_pk" PRIMARY KEY("saga_id","name")
);
--> statement-breakpoint
CREATE TABLE "sagas" (
	"id" text PRIMARY KEY NOT NULL,
	"tenant" text NOT NULL,
	"workflow" text NOT NULL,
	"node_id" uuid NOT NULL,
	"status" text NOT NULL,
	"step" text,
	"code" text,
	"message" text,
	"partial_failures" jsonb DEFAULT '[]'::jsonb NOT NULL,
	"restarts" integer DEFAULT 0 NOT NULL,
	"requested_by" text NOT NULL,
	"created_at" timestamp (3) with time zone NOT NULL,
	"updated_at" timestamp (3) with time zone NOT NULL,
	"ended_at" timestamp (3) with time zone,
	"swept_at" timestamp (3) with time zone
);
--> statement-breakpoint
CREATE TABLE "subscriptions" (
	"id" uuid PRIMARY KEY NOT NULL,
	"tenant" text NOT NULL,
	"user_id" uuid,
	"chain" text NOT NULL,
	"node_type" text NOT NULL,
	"provider" text NOT NULL,
	"region" text NOT NULL,
	"instance_type" text NOT NULL,
	"status" text NOT NULL,
	"created_at" timestamp (3) with time zone NOT NULL,
	"expires_at" timestamp (3) with time zone
);
--> statement-breakpoint
CREATE TABLE "users" (
	"id" uuid PRIMARY KEY NOT NULL,
	"tenant" text NOT NULL,
	"display_name" text NOT NULL,
	"created_at" timestamp (3) with time zone NOT NULL
);
--> statement-breakpoint
ALTER TABLE "api_keys" ADD CONSTRAINT "api_keys_user_id_users_id_fk" FOREIGN KEY ("user_id") REFERENCES "public"."users"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "hosts" ADD CONSTRAINT "hosts_node_id_nodes_id_fk" FOREIGN KEY ("node_id") REFERENCES "public"."nodes"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "node_events" ADD CONSTRAINT "node_events_node_id_nodes_id_fk" FOREIGN KEY ("node_id") REFERENCES "public"."nodes"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "nodes" ADD CONSTRAINT "nodes_user_id_users_id_fk" FOREIGN KEY ("user_id") REFERENCES "public"."users"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "nodes" ADD CONSTRAINT "nodes_subscription_id_subscriptions_id_fk" FOREIGN KEY ("subscription_id") REFERENCES "public"."subscriptions"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "saga_steps" ADD CONSTRAINT "saga_steps_saga_id_sagas_id_fk" FOREIGN KEY ("saga_id") REFERENCES "public"."sagas"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "sagas" ADD CONSTRAINT "sagas_node_id_nodes_id_fk" FOREIGN KEY ("node_id") REFERENCES "public"."nodes"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "subscriptions" ADD CONSTRAINT "subscriptions_user_id_users_id_fk" FOREIGN KEY ("user_id") REFERENCES "public"."users"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
CREATE INDEX "api_keys_tenant_idx" ON "api_keys" USING btree ("tenant");--> statement-breakpoint
CREATE INDEX "audit_log_entity_idx" ON "audit_log" USING btree ("entity");--> statement-breakpoint
CREATE INDEX "hosts_node_idx" ON "hosts" USING btree ("node_id");--> statement-breakpoint
CREATE UNIQUE INDEX "node_events_order_idx" ON "node_events" USING btree ("node_id","incarnation","position");--> statement-breakpoint
CREATE INDEX "nodes_tenant_created_idx" ON "nodes" USING btree ("tenant","created_at","id");--> statement-breakpoint
CREATE INDEX "nodes_tenant_state_idx" ON "nodes" USING btree ("tenant","state");--> statement-breakpoint
CREATE INDEX "nodes_next_due_idx" ON "nodes" USING btree ("next_due");--> statement-breakpoint
CREATE UNIQUE INDEX "nodes_live_subscription_idx" ON "nodes" USING btree ("subscription_id") WHERE state not in ('terminated', 'failed');--> statement-breakpoint
CREATE INDEX "sagas_open_idx" ON "sagas" USING btree ("swept_at") WHERE status = 'running';--> statement-breakpoint
CREATE INDEX "sagas_node_idx" ON "sagas" USING btree ("node_id");--> statement-breakpoint
CREATE INDEX "subscriptions_tenant_created_idx" ON "subscriptions" USING btree ("tenant","created_at","id");